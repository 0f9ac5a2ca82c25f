"""Ordinary asyncio programs, killed at every event: what they give is what the log allows, and replays."""

from __future__ import annotations

from pathlib import Path

import pytest

from artelier_lab.torture.virtual import VirtualLoop
from tests.determinism import programs_races, programs_repeatable
from tests.determinism.harness import Outside, drive, live_through, opened, virtually
from tests.determinism.programs import EXCLUDED, PROGRAMS
from tests.determinism.programs_ends import CHECKS

assert programs_races and programs_repeatable  # they add their programs
NAMES = sorted(PROGRAMS)
GUIDE = Path(__file__).parents[2] / "docs/guides/asyncio.md"


def test_there_are_sixty_programs() -> None:
    assert len(NAMES) >= 60


def test_programs_that_are_excluded_are_named_in_the_guide() -> None:
    text = GUIDE.read_text("utf-8")
    assert [name for name in EXCLUDED if f"`{name}`" not in text] == []


@pytest.mark.parametrize("name", sorted(EXCLUDED))
def test_a_program_that_the_guide_excludes_still_comes_to_an_end(tmp_path: Path, name: str) -> None:
    async def first(loop: VirtualLoop) -> str:
        outside = Outside(name)
        with opened(tmp_path / "s.db", loop, outside) as kernel:
            return (await drive(kernel, EXCLUDED[name], outside)).status

    assert virtually(first) == "completed"


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_program_that_is_killed_at_every_event_ends_as_its_log_allows_and_replays(
    tmp_path: Path, name: str
) -> None:
    for ended in live_through(tmp_path, PROGRAMS[name], f"{name} 0", every=1):
        if name in CHECKS:
            assert CHECKS[name](ended.result), ended.result
