"""Deletion of what was said: the event, and the keys that go with it, in one transaction.

Each message is stored under a key of its own, and so is each run's record. What a deletion takes is decided
by `chat/queries/traces.py`; what other messages and the chat's state still need stays, and is listed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from artelier.chat.queries import chats, tree
from artelier.chat.queries.traces import Traces, traces_of
from artelier.chat.session import settings as cs
from artelier.chat.session.edits import ATTEMPTS_MAX, ChatEdits
from artelier.chat.turn.turn_events import session_stream
from artelier.errors import Conflict, SequenceConflict
from artelier.kernel.erasure import erase_parts
from artelier.log import Draft, EventData, StreamAppend
from artelier.operations import events as ev


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
    derived_artifacts: tuple[str, ...] = ()
    """Artifacts of the chat whose values stay, because turns that stay stand on them."""
    is_erased: bool = True
    """True if the words are gone. False for what was said before chats had a key for each message."""
    is_cleaned: bool = False
    """True if no byte of them is left in the file; where False, `artelier gc` takes them out."""


Choice = tuple[EventData, tree.Doomed | None]
"""What is to be appended, and which nodes go; None for all of the chat."""


class ChatDeletions(ChatEdits):
    """The deletions of `Session`."""

    async def delete_turn(self, turn: int | None = None) -> Deleted:
        """Delete a turn with all its variants, the newest if none is named; the turns after it stay.

        The words go from the database, and so do records of runs that held them; what was made of them and
        is still needed is listed. The branch's state goes back to before the turn only if it was the newest.
        Errors: `NotFound`; `Conflict` while a run is at work on it, or on what comes after it.
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
                    cleaned = await erase_parts(services, self.store, record, traces.keys, by=by)
                else:
                    await self._append(event, seq=seq)
                    cleaned = False
            except SequenceConflict:
                continue
            return _deleted(traces, is_cleaned=cleaned)
        raise self._contention_error()


def _deleted(traces: Traces, *, is_cleaned: bool) -> Deleted:
    return Deleted(
        turns=traces.turns,
        derived_runs=traces.derived_runs,
        erased_runs=traces.erased_runs,
        derived_artifacts=traces.derived_artifacts,
        is_erased=traces.is_whole,
        is_cleaned=is_cleaned,
    )
