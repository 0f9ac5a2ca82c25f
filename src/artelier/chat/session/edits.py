"""Writing to a chat: one batch over it as it stands, edits of what was said, turns from elsewhere, deletion.

Each message is stored under a key of its own, and so is each run's record. What a deletion takes is decided
by `chat/queries/traces.py`; what other messages and the chat's state still need stays, and is listed. Its
event and the keys that go with it are one transaction.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from artelier.chat.queries import chats, tree
from artelier.chat.queries.chats import chat_key
from artelier.chat.queries.traces import Traces, traces_of
from artelier.chat.rows import Node, check_nobody_writes
from artelier.chat.session import settings as cs
from artelier.chat.session.chat_reader import ChatReader, Turn
from artelier.chat.turn.turn_events import session_stream
from artelier.errors import ArtelierError, Conflict, InvalidRequest, NotFound, SequenceConflict
from artelier.kernel.erasure import erase_parts
from artelier.log import (
    Batch,
    Blob,
    BlobRef,
    DataKey,
    Draft,
    EventData,
    StreamAppend,
    Tx,
    blob_name,
    prepared_blob,
)
from artelier.operations import events as ev
from artelier.pii.vault import escape_json
from artelier.threads import run_in_content_thread
from artelier.tokens import estimate_tokens

if TYPE_CHECKING:
    from artelier.chat.conversation_files import ForeignTurn

ATTEMPTS_MAX = 50
"""At an event, while others write to the same chat."""
TITLE_CHARS_MAX = 200
SEARCHED_MAX = 20_000
"""Messages that one search looks at, the newest first."""
ROLES = ("user", "assistant")


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageHit:
    """A message that a search has found."""

    turn: int
    variant: int
    """0 for the person's words."""
    role: str
    text: str
    """The words around the place, at most 200 characters."""
    at_us: int


def _messages_of(turn: Turn) -> list[MessageHit]:
    """Return the messages of a turn, each with all of its words."""
    own = MessageHit(turn=turn.number, variant=0, role="user", text=turn.user, at_us=turn.at_us)
    replies = (
        replace(own, variant=one.number, role="assistant", text=one.text, at_us=one.at_us)
        for one in turn.variants
    )
    return [own, *replies]


def _hits(said: Sequence[MessageHit], wanted: str) -> list[MessageHit]:
    """Return the messages that have some words, each with what stands around them."""
    places = ((one, one.text.casefold().find(wanted)) for one in said)
    return [replace(one, text=one.text[max(0, at - 60) :][:200]) for one, at in places if at >= 0]


class ChatEdits(ChatReader):
    """The writes of `Session`, and edits of its messages."""

    _own: DataKey | None = None
    """The key of the subject that it is opened for."""

    # Edits

    async def rewind(self, turn: int) -> None:
        """Go on from an earlier turn; what came after it is kept beside it. 0 is before the first turn.

        Errors: `NotFound`; `Conflict` while a run of the branch has not ended.
        """

        async def choose() -> EventData:
            return ev.BranchRewound(branch=self.branch_name, node=await self._node_of(turn))

        await self._append_with_retry(choose)

    async def revise(self, text: str, *, turn: int | None = None, role: str = "assistant") -> None:
        """Change what a message says, of the newest turn if none is named; the turns after it stay.

        `role`: `user` for the person's words, `assistant` for the selected reply. Later prompts have the new
        words, and state that operations have made of the old ones stays (`regenerate(turn=...)` makes it
        anew). The old words stay in the records of runs that were shown them.
        Errors: `InvalidRequest`; `NotFound` for no such message; `Conflict` while a run is at work on it.
        """
        words = self._escape_placeholders(cs.said_text(text))
        blobs: list[Blob] = []

        async def choose() -> EventData:
            node = await self._shown_node(turn)
            key = await self._message_key(node, _role(role))
            blobs.clear()
            ref = await self._keep_json(words, blobs, key=key)
            return ev.MessageRevised(branch=self.branch_name, node=node.node, role=role, text=ref)

        await self._append_with_retry(choose, blobs=blobs)

    async def hide(self, *, turn: int | None = None, role: str = "", hidden: bool = True) -> None:
        """Leave messages of a turn out of later prompts, or (`hidden=False`) show them again.

        `role`: `user` or `assistant`; both if none is named. People see the messages all the same.
        Errors: as `revise`.
        """
        wanted = (_role(role),) if role else ROLES
        if not role:
            shown = await self.turn(turn)
            wanted = tuple(one for one, text in zip(ROLES, (shown.user, shown.text), strict=True) if text)
        for one in wanted:

            async def choose(role: str = one) -> EventData:
                node = await self._shown_node(turn)
                return ev.MessageHidden(branch=self.branch_name, node=node.node, role=role, hidden=hidden)

            await self._append_with_retry(choose)

    async def rename(self, title: str) -> None:
        """Give the chat a title; an empty one takes it away. Its id stays.

        Errors: `InvalidRequest`; `NotFound`.
        """
        given = title.strip()
        if len(given) > TITLE_CHARS_MAX or not (given == "" or given.isprintable()):
            raise InvalidRequest(
                "title of a chat",
                expected=f"at most {TITLE_CHARS_MAX} characters in one line",
                got=repr(title)[:80],
            )
        blobs: list[Blob] = []
        own = await self.store.part_key_of(self.desk.id, blob_name((await self.row()).settings))
        ref = await self._keep_json(self._escape_placeholders(given), blobs, key=own) if given else None

        async def choose() -> EventData:
            return ev.ChatLabeled(title=ref, archived=bool((await self.row()).archived))

        await self._append_with_retry(choose, blobs=blobs)

    async def archive(self, archived: bool = True) -> None:
        """Put the chat among the archived ones, or take it back. It can still be read and gone on with."""

        async def choose() -> EventData:
            title = (await self.row()).title
            return ev.ChatLabeled(title=BlobRef(title) if title else None, archived=archived)

        await self._append_with_retry(choose)

    async def title(self) -> str:
        """Return the chat's title; empty for none."""
        return await chats.title_text(self.store, self.desk.id, (await self.row()).title)

    async def search(self, words: str, *, limit: int = 20) -> list[MessageHit]:
        """Find messages of this branch that have some words, in any case; the newest first.

        Cost: O(messages of the branch); of very long ones the newest are looked at.
        Errors: `InvalidRequest` for no words.
        """
        wanted = words.strip().casefold()
        if not wanted or len(wanted) > TITLE_CHARS_MAX:
            raise InvalidRequest("what to search for", expected="1 to 200 characters", got=repr(words)[:80])
        limit, seen = max(1, min(cs.whole(limit, "limit"), 1_000)), 0
        found: list[MessageHit] = []
        async with aclosing(self.each_turn(is_newest_first=True)) as pages:
            async for page in pages:
                said = [one for turn in page for one in _messages_of(turn)]
                seen += len(said)
                size_bytes = sum(len(one.text) for one in said)
                found += await run_in_content_thread(size_bytes, _hits, said, wanted)
                if len(found) >= limit or seen >= SEARCHED_MAX:
                    break
        return found[:limit]

    async def _shown_node(self, turn: int | None) -> Node:
        """The variant of a turn that this branch shows. Errors: `NotFound`."""
        node = await self._node_of(turn)
        if not node:
            raise NotFound(f"branch {self.branch_name!r} of chat {self.chat_id!r} has no turn yet")
        return await tree.node_row(self.store, (await self.row()).id, node)

    async def _message_key(self, node: Node, role: str) -> DataKey | None:
        """Return the key that a message is erased by; None for one that goes with its chat alone."""
        if role == "user":
            node = await tree.node_row(self.store, node.chat, node.turn)
        parts = node.user_parts() if role == "user" else node.reply_parts()
        return await self.store.part_key_of(self.desk.id, blob_name(parts[0].text)) if parts else None

    async def _node_of(self, turn: int | None) -> int:
        """The node of a turn on this branch; 0 for turn 0 of a chat without a greeting."""
        if turn is not None:
            cs.whole(turn, "turn")
        chat, branch = await self.row(), await self.branch_row()
        if turn is None or not branch.head:
            if turn:
                raise NotFound(f"the branch has no turn {turn}")
            return branch.head
        try:
            node = await tree.node_at(self.store, chat.id, branch.head, turn)
        except NotFound:
            if turn == 0:
                return 0
            raise
        return node.node

    # Turns from elsewhere

    async def import_turns(self, turns: Sequence[dict[str, Any]] | Sequence[ForeignTurn]) -> int:
        """Add turns of another conversation at the end of the branch, as data; how many there were.

        Each is `{user: text or None, variants: [text], selected: index, hidden: [role], persona: name,
        speaker: name, reasoning: [text], sent_us: [time], kept: [text]}`; all but the first two may be left
        out. `reasoning` is that of each variant, empty for none; `sent_us` when the words, then each variant,
        was sent; `kept` what a file says beside them.
        Errors: `InvalidRequest`; `Conflict` while a run of the branch has not ended.
        """
        from artelier.chat.conversation_files import batches

        for page in batches(turns):
            blobs: list[Blob] = []
            size = sum(turn.nodes for turn in page)
            keys = iter(await self.store.part_keys(self.desk.id, await self._key(), count=size))
            listed = [await self._import_turn(turn, blobs, keys) for turn in page]
            data = ev.TurnsImported(branch=self.branch_name, turns=tuple(listed))
            await self._append(data, blobs=blobs)
        return len(turns)

    async def _import_turn(
        self, turn: ForeignTurn, blobs: list[Blob], keys: Iterator[DataKey]
    ) -> ev.ImportedTurn:
        texts = [turn.user or "", turn.variants[turn.selected] if turn.variants else ""]
        words = next(keys)
        user = None if turn.user is None else self._escape_placeholders(turn.user)
        replies = [(text, next(keys)) for text in self._escape_placeholders(turn.variants)]
        thoughts = zip(self._escape_placeholders(turn.reasoning), replies, strict=False)
        speaker = replies[0][1] if replies else words
        kept = zip(self._escape_placeholders(turn.kept), (words, *(key for _, key in replies)), strict=False)
        return ev.ImportedTurn(
            user=None if user is None else await self._keep_json(user, blobs, key=words),
            variants=tuple([await self._keep_json(text, blobs, key=key) for text, key in replies]),
            selected=turn.selected,
            hidden=turn.hidden,
            persona=await self._keep_json(turn.persona, blobs, key=words) if turn.persona else None,
            speaker=await self._keep_json(turn.speaker, blobs, key=speaker) if turn.speaker else None,
            tokens=sum(map(estimate_tokens, texts)),
            reasoning=tuple(
                [await self._keep_json(text, blobs, key=key) if text else None for text, (_, key) in thoughts]
            ),
            sent_us=turn.sent_us,
            kept=tuple([await self._keep_json(text, blobs, key=key) if text else None for text, key in kept]),
        )

    # Writing

    def _escape_placeholders(self, value: object) -> Any:
        """Return what a person or a file of elsewhere says: a placeholder in it is text."""
        return value if self.desk.services.personal is None else escape_json(value)

    async def seq(self) -> int:
        return (await self.store.head(session_stream(self.desk.id, self.chat_id)))[0]

    async def _append(
        self, *data: EventData, blobs: list[Blob] | None = None, seq: int | None = None
    ) -> None:
        services = self.desk.services
        by = self._by or ((await self.settings()).principal if seq != 0 else "operator")
        drafts = [Draft(one, services.clock.now_us(), by) for one in data]
        stream = session_stream(self.desk.id, self.chat_id)
        append = StreamAppend(stream, drafts, expected_seq=seq)
        await self.store.append(Batch(appends=[append], blobs=blobs or []))

    async def _key(self) -> DataKey:
        """The key of the chat's subject, or its tenant's."""
        key = await chat_key(self.store, self.desk.id, self.chat_id) or self._own
        return key or await self.store.data_key(self.desk.id)

    async def _part_key(self) -> DataKey:
        """Make a key for a message, which can be erased alone."""
        return (await self.store.part_keys(self.desk.id, await self._key(), count=1))[0]

    async def _keep(self, content: bytes, blobs: list[Blob], *, key: DataKey | None = None) -> BlobRef:
        """`key`: what it is stored under, if not under the chat's."""
        ref, blob = await prepared_blob(self.desk.id, key or await self._key(), content)
        blobs.append(blob)
        return ref

    async def _keep_json(self, value: object, blobs: list[Blob], *, key: DataKey | None = None) -> BlobRef:
        from artelier.kernel.prompt.manifest import encode_json

        return await self._keep(encode_json(value), blobs, key=key)

    def _contention_error(self) -> ArtelierError:
        return Conflict(
            f"chat {self.chat_id!r} is being written to by others all the time", hint="Try again."
        )

    async def _append_with_retry(
        self, choose: Callable[[], Awaitable[EventData | None]], *, blobs: list[Blob] | None = None
    ) -> None:
        """Append what is chosen over the chat as it stands."""
        for _ in range(ATTEMPTS_MAX):
            seq = await self.seq()
            event = await choose()
            if event is None:
                return
            try:
                await self._append(event, blobs=blobs, seq=seq)
            except SequenceConflict:
                continue
            return
        raise self._contention_error()


def _role(role: str) -> str:
    """Errors: `InvalidRequest`."""
    if role not in ROLES:
        raise InvalidRequest("role of a message", expected="user or assistant", got=repr(role)[:60])
    return role


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """The result of a deletion in a chat, and what was made of the words before."""

    turns: int
    """Turns, or replies of one, that are gone."""
    derived_runs: tuple[str, ...] = ()
    """Runs that made the words, and later ones that were shown them: their replies and results may go back to
    them. `artelier erase` reaches them through the chat's subject."""
    erased_runs: tuple[str, ...] = ()
    """Those of them whose record is gone as well: it held the words."""
    unshown_runs: tuple[str, ...] = ()
    """Those that stay, in turns that no branch shows, the newest last: `branch(at_run=...)` opens one."""
    derived_artifacts: tuple[str, ...] = ()
    """Artifacts of the chat whose values stay, because turns that stay stand on them."""
    is_erased: bool = True
    """True if the words are gone. False for what was said before chats had a key for each message."""
    is_cleaned: bool = False
    """True if no byte of them is left in the file; where False, `artelier gc` takes them out."""


Choice = tuple[EventData, tree.Doomed | None]
"""Events to append, and the nodes that go; None for all of the chat."""


class ChatDeletions(ChatEdits):
    """The deletions of `Session`."""

    async def delete_turn(self, turn: int | None = None) -> Deleted:
        """Delete a turn with all its variants, the newest if none is named; the turns after it stay.

        The words go from the database, and so do records of runs that held them; what was made of them and
        is still needed is listed. The branch's state goes back to before the turn only if it was the newest.
        Errors: `NotFound`; `Conflict` while a run is at work on it or on what comes after it, and while a
        draft of the chat, or an operation that is tried again, is.
        """

        async def choose() -> Choice:
            node = await self._shown_node(turn)
            doomed = await tree.doomed_nodes(self.store, node.chat, "turn", node.turn)
            return ev.TurnDeleted(branch=self.branch_name, turn=node.turn), doomed

        return await self._delete(choose)

    async def delete_variant(self, turn: int | None = None, variant: int | None = None) -> Deleted:
        """Delete one reply of a turn, the selected one if none is named; the nearest other takes its place.

        Errors: as `delete_turn`; `Conflict` if turns were said after this reply.
        """

        async def choose() -> Choice:
            node = await self._shown_node(turn)
            if variant is not None:
                node = await tree.variant_row(self.store, node, cs.whole(variant, "variant"))
            doomed = await tree.doomed_nodes(self.store, node.chat, "node", node.node)
            return ev.VariantDeleted(branch=self.branch_name, node=node.node, erases=True), doomed

        return await self._delete(choose)

    async def delete_branch(self, name: str) -> Deleted:
        """Delete another branch, with the turns that no branch shows then.

        Errors: `NotFound`; `Conflict` for `main`, for the branch that is open here, and while it is busy.
        """
        if name == self.branch_name:
            raise Conflict(
                f"branch {name!r} is the one that is open here", hint="Go to another branch first."
            )

        async def choose() -> Choice:
            chat = await self.row()
            branch = await chats.branch_of(self.store, chat, name)
            return ev.BranchDeleted(branch=name), await tree.nodes_alone(self.store, chat.id, branch.name)

        return await self._delete(choose)

    async def delete_chat(self) -> Deleted:
        """Delete the chat: no list shows it, nothing goes on with it, and its id is not used again.

        Its words, its state and the records of its runs go from the database. Errors: `NotFound`; `Conflict`
        while a run of it has not ended.
        """

        async def choose() -> Choice:
            await self.row()
            return ev.ChatDeleted(), None

        return await self._delete(choose)

    async def _delete(self, choose: Callable[[], Awaitable[Choice]]) -> Deleted:
        """Append what is chosen over the chat as it stands, and erase what goes with it, as one."""

        def is_idle(tx: Tx) -> None:
            check_nobody_writes(tx, self.desk.id, self.chat_id)

        for _ in range(ATTEMPTS_MAX):
            seq = await self.seq()
            event, doomed = await choose()
            traces = await traces_of(self.desk.services, await self.row(), doomed)
            services = self.desk.services
            by = self._by or (await self.settings()).principal
            stream = session_stream(self.desk.id, self.chat_id)
            record = StreamAppend(stream, [Draft(event, services.clock.now_us(), by)], expected_seq=seq)
            try:
                if traces.keys:
                    cleaned = await erase_parts(
                        services, self.store, record, traces.keys, by=by, guard=is_idle
                    )
                else:
                    await self.store.append(Batch(appends=[record], guard=is_idle))
                    cleaned = False
            except SequenceConflict:
                continue
            left = set(traces.derived_runs) - set(traces.erased_runs) if doomed else set[str]()
            unshown = await tree.runs_unshown(self.store, (await self.row()).id) if left else []
            return _deleted(traces, [run for run in unshown if run in left], is_cleaned=cleaned)
        raise self._contention_error()


def _deleted(traces: Traces, unshown: Sequence[str], *, is_cleaned: bool) -> Deleted:
    return Deleted(
        turns=traces.turns,
        derived_runs=traces.derived_runs,
        erased_runs=traces.erased_runs,
        unshown_runs=tuple(unshown),
        derived_artifacts=traces.derived_artifacts,
        is_erased=traces.is_whole,
        is_cleaned=is_cleaned,
    )
