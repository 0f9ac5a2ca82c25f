"""Each kind of event has words: in a story at the terminal, and in the console of Mission Control."""

from __future__ import annotations

import re

import msgspec

from artelier.cli.narration import run_events
from artelier.cli.narration.event_labels import WORDS, words_of
from artelier.cli.narration.run_events import TELLERS
from artelier.log import EventData, registered
from artelier_lab.event_table import event_table
from tests.pages import KIND_WORDS, kind_words
from tests.repository.sources import ROOT

assert run_events  # it registers its tellers


def shipped() -> dict[str, list[type[EventData]]]:
    """The kinds of the product, each with its versions."""
    event_table()  # it loads all that record events
    found: dict[str, list[type[EventData]]] = {}
    for (kind, _), cls in registered().items():
        if cls.__module__.startswith("artelier.") and ".testing." not in cls.__module__:
            found.setdefault(kind, []).append(cls)
    return found


def test_every_kind_is_documented() -> None:
    page = event_table()
    assert {kind for kind in shipped() if f"| `{kind}` |" not in page} == set()


def test_every_kind_has_words_at_the_terminal() -> None:
    told = {cls.KIND for cls in TELLERS} | {kind for kind, words in WORDS.items() if words}
    assert set(shipped()) - told == set()


def test_every_kind_has_words_in_the_console() -> None:
    rows = (ROOT / "web/src/projection/rowsTold.ts").read_text("utf-8")
    told = set(re.findall(r'^  "([a-z_]+\.[a-z_]+)":', rows, re.MULTILINE)) | set(WORDS)
    assert set(shipped()) - told == set()
    assert KIND_WORDS.read_text("utf-8") == kind_words()


def test_words_name_kinds_and_fields_that_there_are() -> None:
    kinds = shipped()
    for kind, words in WORDS.items():
        fields = {field.encode_name for cls in kinds[kind] for field in msgspec.structs.fields(cls)}
        assert set(re.findall(r"\{([a-z_]+)\}", words)) <= fields, kind


def test_what_an_event_says_is_text_and_parts_without_it_are_left_out() -> None:
    fired = {"run": "{missed} \x1b[2J daily", "missed": 2}
    assert words_of("schedule.fired", fired) == (r"{missed} \x1b[2J daily is to be started · 2 missed before")
    assert words_of("schedule.paused", {}) == "paused"
    assert words_of("schedule.failed", {"run": "b:" + "A" * 43, "code": "x"}) == "x"
    assert words_of("no.kind", {"a": 1}) == ""
