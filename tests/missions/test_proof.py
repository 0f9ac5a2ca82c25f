"""What a verdict must say to count, whoever gives it."""

from __future__ import annotations

import pytest

from artelier.missions.definition import Verdict
from artelier.missions.task.evaluation import void_of
from artelier.missions.task.output_lint import Judged

TEXT = "# Oslo\n\nThe report is about Oslo, which sold 4,711 in 2025."
NAMED = ["names the amount", "cites a source", "compares three cities"]
LISTS = [
    "- {}\n- {}\n- {}",
    "* {}\n* {}\n* {}",
    "• {}\n• {}\n• {}",
    "1. {}\n2. {}\n3. {}",
    "1: {}\n2: {}\n3: {}",
    "a) {}\nb) {}\nc) {}",
    "[ ] {}\n[ ] {}\n[x] {}",
    "- [ ] {}\n- [ ] {}\n- [ ] {}",
    "It {}. It {}. It {}.",
    "The report:\n\n- {}\n- {}\n  and\n- {}",
]


def void(criteria: str, *judged: str, quote: str = "The report is about Oslo") -> str:
    evidence = [{"ref": "m/o@1", "quote": quote}]
    entries = [{"criterion": one, "met": True, "evidence": evidence} for one in judged]
    output = Judged(ref="m/o@1", media="markdown", text=TEXT)
    return void_of(Verdict.model_validate({"criteria": entries}), criteria, [output])


@pytest.mark.parametrize("form", LISTS)
def test_each_criterion_is_judged_however_they_are_listed(form: str) -> None:
    criteria = form.format(*NAMED)
    entries = [f"It {one}." for one in NAMED] if form.startswith("It") else NAMED

    assert void(criteria, *entries) == ""
    assert void(criteria, *(f"- {one.upper()}!" for one in reversed(entries))) == ""
    assert void(criteria, *entries[:2]) == "criteria_missing"
    assert void(criteria, entries[0], entries[0], entries[0]) == "criteria_missing"
    assert void(criteria, "x", "x", "x") == "criteria_missing"


def test_an_entry_may_judge_sentences_together_or_a_sentence_of_an_item() -> None:
    assert void("It names Oslo. It cites.", "It names Oslo. It cites.") == ""
    assert void("- It names Oslo. It cites.\n- Short.", "It names Oslo.", "It cites.", "Short") == ""


@pytest.mark.parametrize(
    ("quote", "expected"),
    [
        ("e", "no_evidence"),
        ("is about", "no_evidence"),
        ("711", "no_evidence"),
        ("4,711", ""),
        ("2025", ""),
        ("# Oslo", ""),
        ("about Oslo, which", ""),
        ("sold 4,712 in 2025", "quote_not_found"),
    ],
)
def test_a_quote_is_long_or_a_line_or_a_figure(quote: str, expected: str) -> None:
    assert void("Names the amount.", "Names the amount.", quote=quote) == expected
