"""Asyncio programs that are drawn from seeds, killed at every event."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.determinism.generated import generated, generated_beside, takes_steps_when_cut
from tests.determinism.harness import live_through, live_through_retry


@pytest.mark.parametrize("seed", range(20))
def test_a_generated_program_that_is_killed_ends_as_its_log_allows_and_replays(
    tmp_path: Path, seed: int
) -> None:
    live_through(tmp_path, generated(seed), seed, every=9)


@pytest.mark.parametrize("seed", (1005, 1041, 1093, 128697))
def test_a_generated_program_that_once_replayed_otherwise_does_no_more(tmp_path: Path, seed: int) -> None:
    """1005: cancellations noted together; 1041: a computed step that a crash cut off; 1093: one that came
    while its code reacted to another outcome; 128697: one at the instant of a durable timeout around it."""
    live_through(tmp_path, generated(seed), seed, every=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1_000, 1_030))
def test_a_generated_program_that_is_killed_at_every_event_ends_as_its_log_allows(
    tmp_path: Path, seed: int
) -> None:
    live_through(tmp_path, generated(seed), seed, every=1)


@pytest.mark.parametrize("seed", [seed for seed in range(30) if not takes_steps_when_cut(seed)])
def test_a_generated_program_that_fails_in_between_goes_on_when_it_is_retried(
    tmp_path: Path, seed: int
) -> None:
    """18: code that reacts to one outcome while the step is at work that is executed again."""
    live_through_retry(
        tmp_path, generated_beside(seed, fails=True), generated_beside(seed, fails=False), seed
    )
