"""The conversation as people read it: turns with their variants, and never what only prompts show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from artelier.chat.queries.chats import ChatRow, texts
from artelier.chat.queries.tree import TurnNodes, node_of_run
from artelier.chat.rows.nodes import REPLY_HIDDEN, WORDS_HIDDEN, Node, TurnStatus
from artelier.chat.turn.main_call import reply_so_far
from artelier.kernel.queries.runs import runs_by_id
from artelier.log import Store
from artelier.operations.events import ReplyPart


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

    @property
    def text(self) -> str:
        """The selected reply."""
        return next((one.text for one in self.variants if one.number == self.selected), "")


async def read_turns(store: Store, chat: ChatRow, found: Iterable[TurnNodes]) -> list[Turn]:
    """Turns with their texts. Cost: O(variants of the page)."""
    page = list(found)
    ended = await _read_ended_runs(store, chat, page)
    return [await _turn(store, chat, one, ended) for one in page]


async def read_reply(store: Store, chat: ChatRow, run: str) -> Variant | None:
    """Return what people see of the variant that a run of the chat has made; None if it has made none."""
    node = await node_of_run(store, chat.id, run)
    if node is None:
        return None
    alone = TurnNodes(number=node.number, asked=node, selected=node, variants=(node,))
    return await _variant(store, chat, node, await _read_ended_runs(store, chat, [alone]))


async def _turn(store: Store, chat: ChatRow, turn: TurnNodes, ended: Mapping[str, tuple[int, str]]) -> Turn:
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
