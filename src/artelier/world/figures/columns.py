"""The columns of a table of results: names, and expressions over the facts of an agent.

The expressions are in the language of conditions, which can neither call nor change anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from artelier.errors import InvalidArtifact, InvalidRequest
from artelier.world.mind_artifacts.condition import Valued, read_valued

FACTS = (
    "balance",
    "owns",
    "current_state",
    "ticks_in_state",
    "failure_count",
    "last_action.type",
    "last_action.success",
)
"""What there is to know of an agent, beside `tick` and `agent_id`."""

FIXED = ("tick", "agent_id")
"""The first columns of every table."""

COLUMNS_MAX = 200
NAME_CHARS_MAX = 100

Cell = int | float | str | bool | None


class Columns:
    """Checked columns: name to expression."""

    def __init__(self, given: Mapping[str, str]) -> None:
        """Errors: `InvalidRequest` that names the column, and what is wrong with it."""
        if len(given) > COLUMNS_MAX:
            raise InvalidRequest("too many columns", expected=f"at most {COLUMNS_MAX}")
        self._read: dict[str, Valued] = {}
        taken: set[str] = set(FIXED)
        for name, text in given.items():
            _check_name(name, taken)
            taken.add(name.casefold())
            self._read[name] = _readable(name, text)
        self.failed: dict[str, FailedCells] = {}
        """By column, the cells without a value because their expression could not be worked out."""

    @property
    def names(self) -> tuple[str, ...]:
        return (*FIXED, *self._read)

    def row(self, facts: Mapping[str, Any]) -> tuple[Cell, ...]:
        """The cells of one agent and tick."""
        cells: list[Cell] = [facts[name] for name in FIXED]
        for name, expression in self._read.items():
            worth = expression.value(facts)
            if worth.error:
                before = self.failed.get(name, FailedCells(0, worth.error))
                self.failed[name] = FailedCells(before.cells + 1, before.why)
            cells.append(worth.value)
        return tuple(cells)


class FailedCells(NamedTuple):
    """Cells of a column that are empty, and why the first one is."""

    cells: int
    why: str


def columns_of(given: Mapping[str, str]) -> Columns:
    """The columns that are asked for; all facts if none are. Errors: those of `Columns`."""
    return Columns(given or {name.replace(".", "_"): name for name in FACTS})


def _readable(name: str, text: object) -> Valued:
    if not isinstance(text, str):
        raise InvalidRequest(f"column {name} has no expression", expected="a text", got=repr(text))
    try:
        read = read_valued(text)
    except InvalidArtifact as error:
        raise InvalidRequest(
            f"column {name}: {error.message}", expected=error.expected, got=error.got
        ) from None
    unknown = [one for one in read.names if one not in (*FIXED, *FACTS)]
    if unknown:
        raise InvalidRequest(
            f"column {name} asks for a fact that there is not",
            expected=f"of {', '.join((*FIXED, *FACTS))}",
            got=unknown[0],
        )
    return read


def _check_name(name: str, taken: set[str]) -> None:
    # Databases do not tell columns apart by capitals.
    if not 0 < len(name) <= NAME_CHARS_MAX or not name.isprintable() or name.casefold() in taken:
        raise InvalidRequest(
            "this is no name of a column",
            expected=f"1 to {NAME_CHARS_MAX} printable characters, each name once, not {' or '.join(FIXED)}",
            got=repr(name)[:120],
        )
