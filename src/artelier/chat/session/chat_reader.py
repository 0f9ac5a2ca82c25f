"""Read access to a chat: turns, artifacts as people may see them, runs. It changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from artelier.artifacts.space_session import TakeRoom
from artelier.chat.queries import chats, tree
from artelier.chat.queries.artifacts import Chain, StateReport, StateVersion, history_of, value_of
from artelier.chat.queries.chats import (
    BranchReport,
    ChatRow,
    SessionReport,
    branch_lines,
    own_session,
    profile_sessions,
    speaker_name,
    texts,
)
from artelier.chat.queries.tree import TurnNodes, node_of_run
from artelier.chat.rows import FILE, REPLY_HIDDEN, WORDS_HIDDEN, Node, TurnStatus
from artelier.chat.session import settings as cs
from artelier.chat.session.settings import StoredChatSettings
from artelier.chat.turn.main_call import reply_so_far
from artelier.errors import Conflict, InvalidRequest, NotFound
from artelier.kernel.queries.content import RunAttachments, blob_json
from artelier.kernel.queries.runs import runs_by_id
from artelier.log import Store, blob_name, decode_stored, stored_blob
from artelier.operations.events import ReplyPart
from artelier.ports.media import Medium
from artelier.tokens import estimate_tokens

if TYPE_CHECKING:
    from artelier.chat.session.event_stream import RunEvent
    from artelier.chat.session.operation_trial import OperationTrial
    from artelier.chat.session.run_report import TurnReport
    from artelier.kernel.tenants.registry import TenantScope
    from artelier.operations.profile.operation_profile import OperationProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One reply of a turn."""

    number: int
    """Within the turn, from 1."""
    text: str
    """What people see of it on the channel `text`."""
    parts: tuple[Mapping[str, str], ...]
    """`{channel, text, operation}` of all that people see, in order."""
    status: str
    """`done`, `failed`, `aborted`, or `running`."""
    finish_reason: str
    run_id: str
    """Empty for a greeting or an imported reply."""
    node: int
    at_us: int
    is_hidden: bool = False
    """True if later prompts leave it out."""
    speaker: str = ""
    """What the one was called who said it; empty if that is not recorded."""
    kept: str = ""
    """The rest of what the file that it came from says of it, as JSON; read for exports alone."""

    @property
    def tokens(self) -> int:
        """Estimate of its text."""
        return estimate_tokens(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnMedium:
    """An image, a sound, a PDF or a text that was shown with the words of a turn."""

    position: int
    """From 1, as in `/sessions/{id}/turns/{number}/media/{position}`."""
    media_type: str
    size_bytes: int
    pages: int | None
    """Of a PDF."""
    pixels: tuple[int, int] | None
    """Width and height of an image."""
    seconds: int | None
    """Length of a sound, rounded up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A turn as one branch shows it."""

    number: int
    """From 1; 0 for a greeting."""
    user: str
    """The person's words, as the selected variant has them; empty for a greeting."""
    said: str
    """The words as they were said, before any operation changed them."""
    selected: int
    """Number of the selected variant; 0 if the turn has no reply."""
    variants: tuple[Variant, ...]
    at_us: int
    is_hidden: bool = False
    """True if later prompts leave the person's words out."""
    persona: str = ""
    """What the person was called who said them; empty if that is not recorded."""
    media: tuple[Medium, ...] = ()
    """Images, sounds, PDFs and texts that the model was shown with the words; none once they were erased."""
    kept: str = ""
    """The rest of what the file that the words came from says of them, as JSON; read for exports alone."""

    @property
    def attached(self) -> list[TurnMedium]:
        """`media` as the command line, the API and the page name them."""
        return [
            TurnMedium(
                position=position,
                media_type=one.media_type,
                size_bytes=one.size_bytes,
                pages=one.pages,
                pixels=one.pixels,
                seconds=one.seconds,
            )
            for position, one in enumerate(self.media, 1)
        ]

    @property
    def chars(self) -> int:
        """Number of characters that people see of it."""
        parts = (part for one in self.variants for part in one.parts)
        return len(self.user) + len(self.said) + sum(len(part["text"]) for part in parts)

    @property
    def user_tokens(self) -> int:
        """Estimate of the person's words."""
        return estimate_tokens(self.user)

    @property
    def text(self) -> str:
        """The selected reply."""
        return next((one.text for one in self.variants if one.number == self.selected), "")

    @property
    def speaker(self) -> str:
        """The name of whoever gave the selected reply."""
        return next((one.speaker for one in self.variants if one.number == self.selected), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPage:
    """Some turns of a branch next to each other."""

    turns: list[Turn]
    """Oldest first."""
    before: int | None
    """The turn that others stand before; None if these are the first."""


async def read_turns(
    store: Store,
    chat: ChatRow,
    found: Iterable[TurnNodes],
    *,
    chars_max: int | None = None,
    with_kept: bool = False,
) -> list[Turn]:
    """Turns with their texts; the first ones of them, at least one, once these have `chars_max` characters.

    `with_kept`: also what files say beside them.
    Cost: O(variants of the page).
    """
    page, turns, chars = list(found), list[Turn](), 0
    ended = await _read_ended_runs(store, chat, page)
    media = await _read_media(store, chat, page)
    for one in page:
        turn = await _turn(store, chat, one, ended, media.get(one.asked.run, ()))
        turns.append(await _with_kept(store, chat, one, turn) if with_kept else turn)
        chars += turns[-1].chars
        if chars_max is not None and chars >= chars_max:
            break
    return turns


async def _with_kept(store: Store, chat: ChatRow, nodes: TurnNodes, turn: Turn) -> Turn:
    async def kept(parts: Iterable[ReplyPart]) -> str:
        beside = [part for part in parts if part.channel == FILE]
        return "".join(await texts(store, chat.tenant, beside, forgiving=True))

    variants = [
        replace(variant, kept=await kept(node.reply_parts()))
        for variant, node in zip(turn.variants, nodes.variants, strict=True)
    ]
    return replace(turn, kept=await kept(nodes.asked.user_parts()), variants=tuple(variants))


async def read_reply(store: Store, chat: ChatRow, run: str) -> Variant | None:
    """Return what people see of the variant that a run of the chat has made; None if it has made none."""
    node = await node_of_run(store, chat.id, run)
    if node is None:
        return None
    alone = TurnNodes(number=node.number, asked=node, selected=node, variants=(node,))
    return await _variant(store, chat, node, await _read_ended_runs(store, chat, [alone]))


async def _turn(
    store: Store,
    chat: ChatRow,
    turn: TurnNodes,
    ended: Mapping[str, tuple[int, str]],
    media: tuple[Medium, ...],
) -> Turn:
    said = await _people(store, chat, turn.asked.user_parts())
    own = turn.selected.user_parts()
    shown = await _people(store, chat, own) if turn.selected.variant and own else said
    return Turn(
        number=turn.number,
        user=_text(shown),
        said=_text(said),
        selected=turn.selected.variant,
        variants=tuple([await _variant(store, chat, one, ended) for one in turn.variants]),
        at_us=turn.asked.at_us,
        is_hidden=bool(turn.asked.hidden & WORDS_HIDDEN),
        persona=await speaker_name(store, chat.tenant, own or turn.asked.user_parts()),
        media=media,
    )


async def _variant(store: Store, chat: ChatRow, node: Node, ended: Mapping[str, tuple[int, str]]) -> Variant:
    parts = await _people(store, chat, node.reply_parts())
    status = node.status.value
    if node.status is TurnStatus.BEGUN:
        run, how = ended.get(node.run, (0, ""))
        status = {"cancelled": "aborted", "failed": "failed"}.get(how, "running")
        if run and status == "running":
            parts = await _so_far(store, chat, run)
    return Variant(
        number=node.variant,
        text=_text(parts),
        parts=parts,
        status=status,
        finish_reason=node.finish,
        run_id=node.run,
        node=node.node,
        at_us=node.at_us,
        is_hidden=bool(node.hidden & REPLY_HIDDEN),
        speaker=await speaker_name(store, chat.tenant, node.reply_parts()),
    )


async def _so_far(store: Store, chat: ChatRow, run: int) -> tuple[Mapping[str, str], ...]:
    """A reply that is recorded, and not the turn's yet."""
    call = await reply_so_far(store, chat.tenant, run)
    if call is None or not call.text:
        return ()
    return ({"channel": "text", "text": call.text, "operation": ""},)


async def _people(store: Store, chat: ChatRow, parts: Iterable[ReplyPart]) -> tuple[Mapping[str, str], ...]:
    visible = [part for part in parts if part.ui]
    said = await texts(store, chat.tenant, visible, forgiving=True)
    return tuple(
        {"channel": part.channel, "text": text, "operation": part.operation}
        for part, text in zip(visible, said, strict=True)
    )


def _text(parts: Iterable[Mapping[str, str]]) -> str:
    return "\n\n".join(part["text"] for part in parts if part["channel"] == "text" and part["text"])


async def _read_ended_runs(
    store: Store, chat: ChatRow, page: Iterable[TurnNodes]
) -> dict[str, tuple[int, str]]:
    """Row and status of runs that have begun a variant of the page and not said how it ended."""
    runs = sorted({one.run for turn in page for one in turn.variants if one.status is TurnStatus.BEGUN})
    rows = await runs_by_id(store, chat.tenant, runs) if runs else {}
    return {run: (row.id, row.status) for run, row in rows.items()}


_BLOBS_AT_ONCE = 500
TURNS_AT_ONCE = 40
CHARS_AT_ONCE = 500_000
"""Of a long chat, so much is read in one turn of the event loop: some milliseconds."""


async def _read_media(
    store: Store, chat: ChatRow, page: Iterable[TurnNodes]
) -> dict[str, tuple[Medium, ...]]:
    """Media of the turns' words, by the run that they were said to. Cost: two queries for 500 turns."""
    runs = sorted({one.asked.run for one in page if one.asked.run and one.asked.user_parts()})
    rows = await runs_by_id(store, chat.tenant, runs) if runs else {}
    names = {run: blob_name(row.settings) for run, row in rows.items() if row.settings is not None}
    found: dict[str, tuple[Medium, ...]] = {}
    listed = list(names.items())
    for start in range(0, len(listed), _BLOBS_AT_ONCE):
        some = listed[start : start + _BLOBS_AT_ONCE]
        contents = await store.blobs(chat.tenant, [name for _, name in some])
        for run, name in some:
            if (content := contents.get(name)) is not None:
                found[run] = decode_stored(content, type=RunAttachments).media
    return found


class ChatReader:
    """One branch of a chat, for reading. `desk` is the kernel bound to its tenant."""

    _by = ""
    """The one who acts in the chat's name; empty for its principal."""

    def __init__(self, desk: TenantScope, chat_id: str, *, branch: str) -> None:
        self.desk = desk
        self.chat_id = chat_id
        self.branch_name = cs.check_name(branch, what="branch")

    @property
    def actor(self) -> str:
        """The one who acts in the chat's name; empty for its principal."""
        return self._by

    @property
    def store(self) -> Store:
        return self.desk.services.store

    async def row(self) -> chats.ChatRow:
        """Errors: `NotFound`."""
        return await chats.chat_row(self.store, self.desk.id, self.chat_id)

    async def exists(self) -> bool:
        try:
            await self.row()
        except NotFound:
            return False
        return True

    async def branch_row(self) -> chats.BranchState:
        """Errors: `NotFound`."""
        return await chats.branch_of(self.store, await self.row(), self.branch_name)

    async def settings(self) -> StoredChatSettings:
        """Errors: `NotFound`."""
        stored = await blob_json(self.desk.services, self.desk.id, (await self.row()).settings)
        return StoredChatSettings.from_stored(stored)

    async def profile(self) -> OperationProfile | None:
        """The profile that the next turn works with. Errors: `NotFound`, `AccessDenied`."""
        return (await cs.profile_of(self.desk, await self.settings()))[0]

    async def need_profile(self) -> OperationProfile:
        """Errors: `Conflict` for a chat without one."""
        profile = await self.profile()
        if profile is None:
            raise Conflict(
                f"chat {self.chat_id!r} has no profile, and so no sessions of one",
                hint="session.change(profile=...) gives it one.",
            )
        return profile

    # The conversation

    async def turns(
        self, *, after: int | None = None, before: int | None = None, limit: int = 50
    ) -> list[Turn]:
        """A page of the branch's turns, oldest first: the newest ones, those next before a turn, or those
        after one. `limit` is at most 1000. Cost: O(turns from the newest to the end of the page)."""
        chat, branch = await self.row(), await self.branch_row()
        if not branch.head:
            return []
        found = await tree.path(
            self.store,
            chat.id,
            branch.head,
            limit=cs.whole(limit, "limit"),
            after=None if after is None else cs.whole(after, "after"),
            before=None if before is None else cs.whole(before, "before"),
        )
        return await read_turns(self.store, chat, found)

    async def newest_turns(self, *, before: int | None, limit: int, chars_max: int) -> TurnPage:
        """Return the newest turns, or those next before one: at least one, and others while there is room."""
        chat, branch = await self.row(), await self.branch_row()
        found = await tree.path(self.store, chat.id, branch.head, before=before, limit=limit + 1)
        newest = reversed(found[-limit:])
        await asyncio.sleep(0)  # to read many words is long: others have their turn before
        turns = (await read_turns(self.store, chat, newest, chars_max=chars_max))[::-1]
        return TurnPage(turns=turns, before=turns[0].number if len(turns) < len(found) else None)

    async def each_turn(
        self, *, is_newest_first: bool = False, with_kept: bool = False
    ) -> AsyncGenerator[list[Turn]]:
        """Yield all turns of the branch, some at a time; others have their turn meanwhile.

        `with_kept`: with what the file that they came from says beside them.
        """
        chat, branch = await self.row(), await self.branch_row()
        nodes = await tree.nodes_above(self.store, chat.id, branch.head)
        if not is_newest_first:
            nodes.reverse()
        for start in range(0, len(nodes), TURNS_AT_ONCE):
            found = await tree.turns_of(self.store, chat.id, nodes[start : start + TURNS_AT_ONCE])
            while found:
                turns = await read_turns(
                    self.store, chat, found, chars_max=CHARS_AT_ONCE, with_kept=with_kept
                )
                yield turns
                await asyncio.sleep(0)
                found = found[len(turns) :]

    async def turn(self, number: int | None = None) -> Turn:
        """One turn of the branch, the newest if none is named. Errors: `NotFound`."""
        before = None if number is None else cs.whole(number, "turn") + 1
        found = await self.turns(before=before, limit=1)
        if not found or (number is not None and found[0].number != number):
            raise NotFound(f"the branch has no turn {'yet' if number is None else number}")
        return found[0]

    async def read_medium(
        self, turn: int, number: int = 1, *, room: TakeRoom | None = None
    ) -> tuple[Medium, bytes]:
        """Return one of the media shown with a turn's words, and its bytes; `number` counts from 1.

        It takes `room` before it is read. Errors: `NotFound`; `Erased`.
        """
        media = (await self.turn(turn)).media
        if not 0 < cs.whole(number, "number") <= len(media):
            expected = f"1 to {len(media)}" if media else "a turn with an attachment"
            raise NotFound(f"turn {turn} was shown no medium {number}", expected=expected)
        medium = media[number - 1]
        if room is not None:
            await room(medium.size_bytes)
        return medium, await stored_blob(self.store, self.desk.id, medium.blob)

    async def reply(self, run_id: str) -> Variant | None:
        """The reply that one of the chat's runs has made, as people see it; None if there is none.

        Errors: `NotFound`, also for a run of another chat.
        """
        await self._check_own(run_id)
        return await read_reply(self.store, await self.row(), run_id)

    async def branches(self) -> list[BranchReport]:
        """Return the branches in the order they were made."""
        return [
            {
                "name": one.name,
                "origin": one.origin,
                "run_id": one.run,
                "status": one.status,
                "turn": one.turn,
                "is_current": one.name == self.branch_name,
                "made_us": one.at_us,
            }
            for one in await branch_lines(self.store, await self.row())
        ]

    # Sessions of the profile

    async def session_id(self, profile: OperationProfile | None) -> str:
        """The session of a profile that the branch works with; empty without a profile."""
        if profile is None:
            return ""
        own = await own_session(self.store, (await self.row()).id, self.branch_name, profile.profile_id)
        if own is not None and own[1] == profile.session_id:
            return own[0]
        return profile.session_id

    async def sessions(self) -> list[SessionReport]:
        """Return the sessions of the chat's profile in the order they began.

        Empty without a profile; the current one is there before its first run.
        """
        profile = await self.profile()
        if profile is None:
            return []
        current = await self.session_id(profile)
        found: list[SessionReport] = [
            {
                "session_id": one.session,
                "runs": one.runs,
                "begun_us": one.begun_us,
                "used_us": one.used_us,
                "is_current": one.session == current,
            }
            for one in await profile_sessions(self.store, (await self.row()).id, profile.profile_id)
        ]
        if not any(one["is_current"] for one in found):
            found.append(
                {"session_id": current, "runs": 0, "begun_us": None, "used_us": None, "is_current": True}
            )
        return found

    # Artifacts

    async def arts(self, *, internal: bool = False) -> dict[str, StateReport]:
        """Return `art.<tag>` of the branch's session as people may see them, by tag.

        With `internal`, an operator also sees those that only prompts, or nobody, may show.
        """
        return {
            chain.newest.tag: await self._describe_artifact(chain) for chain in await self._chains(internal)
        }

    async def art(self, tag: str, *, internal: bool = False) -> Any:
        """The value of `art.<tag>`. Errors: `NotFound`, also for one that people may not see."""
        chain = await self._chain(tag, internal)
        return await value_of(self.store, self.desk.id, chain, now_us=self._now_us())

    async def history(self, tag: str, *, internal: bool = False) -> list[StateVersion]:
        """Return earlier values, newest first; of a feed its entries.

        Errors: as `art`.
        """
        chain = await self._chain(tag, internal)
        return await history_of(self.store, self.desk.id, chain, now_us=self._now_us())

    async def publish(self, tag: str, *, id: str | None = None, internal: bool = False) -> str:
        """Make an artifact (kind `document`) of the current value, and its ref; `id` is `<chat>/<tag>`.

        It is owned by the chat's principal and says which run wrote the value.
        Errors: as `art`; `InvalidRequest` if the id is too long; `AccessDenied` if it is somebody else's.
        """
        from artelier.artifacts import Provenance

        chain = await self._chain(tag, internal)
        value = await value_of(self.store, self.desk.id, chain, now_us=self._now_us())
        newest, settings = chain.newest, await self.settings()
        artifacts = self.desk.as_principal(settings.principal).artifacts
        artifact = await artifacts.by(self._by or settings.principal).write(
            id if id is not None else f"{self.chat_id}/{tag}",
            kind="document",
            content=value,
            provenance=Provenance(run_id=newest.run, derived_from=(newest.profile,)),
            metadata={"tag": tag, "version": newest.version, "chat": self.chat_id},
        )
        return f"{artifact.id}@{artifact.version}"

    def _now_us(self) -> int:
        return self.desk.services.clock.now_us()

    async def _chains(self, internal: bool, tags: tuple[str, ...] | None = None) -> list[Chain]:
        profile = await self.profile()
        if profile is None:
            return []
        scope = f"{profile.profile_id}/{await self.session_id(profile)}"
        chat, branch = await self.row(), await self.branch_row()
        found = await tree.state_chains(self.store, chat.id, head=branch.head, scope=scope, tags=tags)
        return [chain for chain in found if internal or chain.in_ui]

    async def _chain(self, tag: str, internal: bool) -> Chain:
        if not isinstance(tag, str):  # pyright: ignore[reportUnnecessaryIsInstance] - from users
            raise InvalidRequest("tag", expected="text", got=type(tag).__name__)
        if found := await self._chains(internal, (tag,)):
            return found[0]
        known = ", ".join(chain.newest.tag for chain in await self._chains(internal))
        raise NotFound(f"no art.{tag:.64} to see here", expected=known or "none yet")

    async def _describe_artifact(self, chain: Chain) -> StateReport:
        newest = chain.newest
        return {
            "value": await value_of(self.store, self.desk.id, chain, now_us=self._now_us()),
            "version": newest.version,
            "usage": newest.usage,
            "semantics": newest.semantics,
            "append": bool(newest.append),
            "operation": newest.operation,
            "run_id": newest.run,
            "at_us": newest.at_us,
        }

    # Runs

    async def events(self, run_id: str, *, after: int = 0, limit: int = 200) -> list[RunEvent]:
        """Stored events of one of the chat's runs with `seq > after`, in the API's names.

        Errors: `NotFound`, also for a run of another chat.
        """
        from artelier.chat.session.event_stream import stored_events

        await self._check_own(run_id)
        return await stored_events(self.desk, run_id, after=after, limit=cs.whole(limit, "limit"))

    async def watch(self, run_id: str, *, after: int = 0) -> AsyncGenerator[RunEvent]:
        """Follow a run: `RunEvent`s with `seq > after`, and pieces of its reply without, up to its end.

        A piece is a `main_llm.delta`, or a `main_llm.reasoning` of what the model thinks before; who comes
        while the reply is being written gets each so far as one. Errors: `NotFound`.
        """
        from artelier.chat.session.event_stream import follow_run

        await self._check_own(run_id)
        async with aclosing(follow_run(self.desk, run_id, after=after)) as items:
            async for item in items:
                yield item

    async def show(self, run_id: str, *, internal: bool = False) -> TurnReport:
        """Return one of the chat's runs: its plan, operations, effects, its prompt's parts, how it ended.

        Values are not in it, unless `internal`: that is for operators, who see errors in full, what an
        operation that failed saw, and what the others found. Errors: `NotFound`.
        """
        from artelier.chat.session.run_report import show_run

        await self._check_own(run_id)
        return await show_run(self.desk, run_id, internal=internal)

    async def scope_of(self, run_id: str, operation_id: str, *, hook: str = "") -> dict[str, Any]:
        """The names that an operation of a turn saw, or would have seen; for operators alone.

        `hook`: for one that stands at both. Errors: `NotFound`, `Erased`; `Conflict` before the turn's end.
        """
        from artelier.chat.session.operation_trial import scope_of

        await self._check_own(run_id)
        return await scope_of(self.desk, run_id, operation_id, hook=hook)

    async def run_operation(
        self, run_id: str, operation_id: str, *, hook: str = "", current: bool = False
    ) -> OperationTrial:
        """Run an operation of a turn again over what it saw, in a run of its own; for operators alone.

        Nothing of the chat changes. `current`: as the profile has it now, not as the turn had it.
        Errors: as `scope_of`; `InvalidRequest` for one that calls a tool which acts outside.
        """
        from artelier.chat.session.operation_trial import run_again

        await self._check_own(run_id)
        by = self._by or (await self.settings()).principal
        return await run_again(self.desk, run_id, operation_id, hook=hook, current=current, by=by)

    async def _check_own(self, run_id: object) -> None:
        chat, _, number = str(run_id).rpartition("/r")
        if chat != self.chat_id or not number.isdecimal() or int(number) > (await self.row()).runs:
            raise NotFound(f"no run {str(run_id)[:140]!r} in chat {self.chat_id!r}")
