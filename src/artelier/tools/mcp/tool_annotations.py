"""The side effects and risk of a server's tool, from the operator and, if trusted, from the server.

Annotations of a server are its own word. They change nothing unless the operator trusts that server, and a
tool of which nothing is known has side effects of high risk.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from artelier.ports.tool import Risk

if TYPE_CHECKING:
    from mcp import types


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """A tool's annotations; None for what is not said."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None

    @classmethod
    def of(cls, tool: types.Tool) -> Hints:
        said = tool.annotations
        if said is None:
            return cls()
        return cls(
            read_only=said.read_only_hint,
            destructive=said.destructive_hint,
            idempotent=said.idempotent_hint,
            open_world=said.open_world_hint,
        )

    @property
    def only_reads(self) -> bool:
        """Said without contradiction."""
        return self.read_only is True and self.destructive is not True

    @property
    def only_adds(self) -> bool:
        """Destroys nothing and stays within the server; the protocol's default is the opposite of both."""
        return self.destructive is False and self.open_world is False


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The properties of a tool that the kernel uses."""

    side_effect: bool
    idempotent: bool
    risk: Risk


def facts_of(hints: Hints, *, is_trusted: bool, reads: bool, repeats: bool, risk: Risk | None) -> Facts:
    """The facts of a tool. `reads`, `repeats` and `risk` are the operator's word, which comes first."""
    believed = hints if is_trusted else Hints()
    side_effect = not (reads or believed.only_reads)
    if risk is None:
        risk = "low" if not side_effect else "medium" if believed.only_adds else "high"
    idempotent = not side_effect or repeats or believed.idempotent is True
    return Facts(side_effect=side_effect, idempotent=idempotent, risk=risk)
