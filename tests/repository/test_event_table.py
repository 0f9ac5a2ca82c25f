"""The documented events are the events there are."""

from __future__ import annotations

from artelier.log import registered
from artelier_lab.event_table import event_table
from tests.repository.sources import ROOT


def test_the_table_of_events_is_up_to_date() -> None:
    assert (ROOT / "docs" / "events.md").read_text("utf-8") == event_table()


def test_every_event_says_what_it_means_and_has_a_name_of_two_parts() -> None:
    assert " |  |" not in event_table()
    for kind, _ in registered():
        noun, _, participle = kind.partition(".")
        assert noun and participle


def test_no_event_field_is_a_float() -> None:
    for cls in registered().values():
        assert "float" not in repr(cls.__annotations__)
