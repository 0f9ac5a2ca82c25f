"""The search of large texts off the event loop, in helper processes that can be killed, in turn of tenants.

A process is given one window of a text at a time and answers with places; keys and placeholders stay here.
Whoever searches much waits behind others after each window.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from functools import partial

from artelier.child import ChildPool, ChildStopped, HelperFailure, Question
from artelier.confinement import Needs
from artelier.errors import Exhausted, InvalidRequest, PatternTimeout, ToolFailed
from artelier.pii.detectors.search import TenantPattern
from artelier.pii.detectors.text_view import RULES, Shipped, ValuePlace
from artelier.pii.hidden_values import PlacesAnswer, TextWindow, join_places, places, windows
from artelier.ports.pii import Detector
from artelier.threads import PlaceTurns

INLINE_CHARS_MAX = 8 * 1024
"""Texts up to this size are searched where they are, which takes 8 ms at worst (digits; 1 ms for words)."""

PLACES = 2
"""Windows that are searched at once, over all tenants; one has all of them only while no other waits."""

WINDOW_TIME_S = 20.0
"""Of the processor, for one window: some ten times what the worst known text takes."""

TEXT_TIME_S = 240.0
"""Of the processor, for all windows of one text."""


_OURS = "artelier.pii.detectors."

_Names = list[tuple[str, str | None]]
"""Detectors as a helper process is told of them: the kind, and the expression of a pattern."""


class Unsearchable(Exhausted):
    """A text took too much to be searched for personal data: it is stored nowhere and sent to nobody."""

    code = "unsearchable"


class PiiSearch:
    """Searches of one kernel. Belongs to one event loop."""

    def __init__(self) -> None:
        self._turns = PlaceTurns(PLACES)
        self._pool = ChildPool(
            "artelier.pii.worker",
            first={"detectors": [], "text": "", "rules": RULES},
            answer=PlacesAnswer,
            # Detectors load numbering plans as they meet them, and patterns have a helper of their own.
            needs=Needs(walls=("limits", "namespaces", "privileges")),
        )
        self.windows = 0
        """How many windows helper processes have searched."""

    async def places(
        self, detectors: Sequence[Detector], text: str, *, tenant: str, rules: int = RULES
    ) -> AsyncGenerator[list[ValuePlace]]:
        """Yield what the detectors find in a text, window by window, ascending, none over another.

        Errors: `PatternTimeout`; `Unsearchable` for a text that takes more time or memory than there is;
        `ToolFailed` where no process can be started.
        """
        named = _names(detectors)
        if named is None:  # a detector of the host's own is an object of this process
            async with self._turns.turn(tenant):
                yield await asyncio.to_thread(partial(places, detectors, text, rules=rules))
            return
        left_s = TEXT_TIME_S
        last: list[ValuePlace] = []
        """The last place so far, which the next window may make longer."""
        for window in windows(text):
            async with self._turns.turn(tenant):
                found, took_s = await self._search_window(named, text, window, last, rules=rules)
            left_s -= took_s
            if left_s < 0:
                raise _unsearchable("it takes too long", text)
            yield found[:-1]
            last = found[-1:]
        yield last

    async def _search_window(
        self, named: _Names, text: str, window: TextWindow, last: list[ValuePlace], *, rules: int
    ) -> tuple[list[ValuePlace], float]:
        """Return the last place before a window with those that belong to it, and the time that they took."""
        question = Question(self._pool)
        patterns = frozenset(kind for kind, expression in named if expression is not None)

        def ask() -> tuple[list[ValuePlace], float]:
            part = text[window.low : window.high]
            message = {"detectors": named, "text": part, "rules": rules}
            answer = _check_answer(question.ask(message, time_s=WINDOW_TIME_S), text)
            owned = _places_of_window(answer.found, answer.values, window, patterns=patterns)
            return join_places(text, last + owned, patterns), answer.took_s

        self.windows += 1
        try:
            return await asyncio.to_thread(ask)
        except asyncio.CancelledError:
            question.stop()
            raise
        except ChildStopped as error:
            raise ToolFailed(f"the helper process does not start: {error}") from None


def _check_answer(answer: PlacesAnswer | HelperFailure, text: str) -> PlacesAnswer:
    """Return the answer of a helper process. Errors: as it says."""
    if isinstance(answer, PlacesAnswer):
        return answer
    match answer.failed:
        case "pattern":
            raise PatternTimeout(answer.message, kind=answer.kind)
        case "refused":
            raise InvalidRequest(answer.message)
        case _:
            raise _unsearchable(answer.message, text)


def _names(detectors: Sequence[Detector]) -> _Names | None:
    """Return how a helper process calls the detectors; None if one of them is of the host."""
    named: _Names = []
    for one in detectors:
        if isinstance(one, TenantPattern):
            named.append((one.kind, one.expression))
        elif isinstance(one, Shipped) and type(one).__module__.startswith(_OURS):
            named.append((one.kind, None))
        else:
            return None
    return named


def _places_of_window(
    flat: list[int], values: list[tuple[str, str, str]], window: TextWindow, *, patterns: frozenset[str]
) -> list[ValuePlace]:
    """Return the places that belong to a window; of patterns, all that reach into it.

    Shapes: `flat` is start, end and index in `values` of each; a value is kind, normal form and spelling.
    """
    base, found = window.low, list[ValuePlace]()
    for start, end, index in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
        kind, normal, shown = values[index]
        place = ValuePlace(base + start, base + end, kind, normal, shown)
        reaches = kind in patterns and place.start < window.end and place.end > window.start
        if reaches or window.start <= place.start < window.end:
            found.append(place)
    return found


def _unsearchable(why: str, text: str) -> Unsearchable:
    return Unsearchable(
        f"a text could not be searched for personal data: {why}",
        expected=f"one that takes at most {TEXT_TIME_S:g} s of a processor",
        got=f"{len(text)} characters",
        hint="Nothing of it was stored or sent. Part it, or take lists of numbers out of it.",
    )
