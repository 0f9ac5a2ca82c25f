"""Turns of a conversation from elsewhere, as data: checked, and cut into pieces of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from artelier.chat.session.settings import checked_text
from artelier.chat.tree.branches import VARIANTS_MAX
from artelier.errors import InvalidRequest

TURNS_MAX = 100_000
PAGE_NODES_MAX = 1_000
"""Turns and variants of one event; fewer than a chat's stream has numbers for."""
PAGE_CHARS_MAX = 8_000_000


class ForeignTurn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A person's message and the replies to it."""

    user: str | None = None
    """None if the character began."""
    variants: tuple[str, ...] = ()
    selected: int = 0

    def check(self) -> None:
        """Errors: `InvalidRequest`."""
        if len(self.variants) > VARIANTS_MAX:
            raise InvalidRequest(
                "variants of one turn", expected=f"at most {VARIANTS_MAX}", got=len(self.variants)
            )
        if self.variants and not 0 <= self.selected < len(self.variants):
            raise InvalidRequest("selected", expected=f"0 to {len(self.variants) - 1}", got=self.selected)
        if self.user is None and not self.variants:
            raise InvalidRequest("a turn needs words or replies", got="neither")
        for text in (self.user or "", *self.variants):
            checked_text(text, what="text of a turn")

    @property
    def nodes(self) -> int:
        return 1 + len(self.variants)

    @property
    def chars(self) -> int:
        return len(self.user or "") + sum(map(len, self.variants))


def batches(turns: object) -> Iterator[Sequence[ForeignTurn]]:
    """Pages of turns, each for one event; nothing is given before all of them were checked.

    Errors: `InvalidRequest`.
    """
    if isinstance(turns, list | tuple) and len(turns) > TURNS_MAX:  # pyright: ignore[reportUnknownArgumentType] - any list
        raise InvalidRequest("turns of one import", expected=f"at most {TURNS_MAX}")
    try:
        checked = msgspec.convert(turns, tuple[ForeignTurn, ...], from_attributes=True)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InvalidRequest(
            f"turns of a conversation: {error}",
            expected="a list of {user: text or null, variants: [text], selected: index}",
        ) from None
    for turn in checked:
        turn.check()
    return _pages(checked)


def _pages(turns: Sequence[ForeignTurn]) -> Iterator[Sequence[ForeignTurn]]:
    page: list[ForeignTurn] = []
    nodes = chars = 0
    for turn in turns:
        if page and (nodes + turn.nodes > PAGE_NODES_MAX or chars + turn.chars > PAGE_CHARS_MAX):
            yield page
            page, nodes, chars = [], 0, 0
        page.append(turn)
        nodes, chars = nodes + turn.nodes, chars + turn.chars
    if page:
        yield page
