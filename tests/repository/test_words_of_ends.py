"""The page has words and a remedy for each code that a task can end with; no code there is out of date."""

from __future__ import annotations

import re

from artelier.errors import ArtelierError
from artelier.missions import status
from tests.repository.sources import ROOT

OF_GOALS = {"plan_invalid", "unknown_price"}
"""Codes of goals that could not be planned or launched."""
NO_ERROR = {"max_iterations", "stuck", "rejected", "decision_invalid"}
"""Codes of tasks that no error has ended."""
NEEDS_NOTHING = {"budget_exhausted", "mission_cancelled", "cancelled"}
"""Why a task is not done that has not failed."""


def codes_of(root: type[ArtelierError]) -> set[str]:
    return {root.code}.union(*(codes_of(one) for one in root.__subclasses__()))


def codes_of_page() -> set[str]:
    text = (ROOT / "web/src/projection/endWords.ts").read_text("utf-8")
    table = text[text.index("const ENDS") : text.index("\n};")]
    return set(re.findall(r"^  ([a-z_]+): \[", table, re.MULTILINE))


def test_each_end_that_the_server_has_words_for_has_a_remedy_on_the_page() -> None:
    assert codes_of_page() == set(status.REASONS) - NEEDS_NOTHING | OF_GOALS


def test_the_codes_are_those_of_errors() -> None:
    assert codes_of_page() - OF_GOALS - NO_ERROR <= codes_of(ArtelierError)
