"""Torture of worlds: seeds hold every promise, every action is tried. Planted bugs: `test_torture.py`."""

from __future__ import annotations

import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from artelier.world.actions import ACTIONS, Rejected, action_from
from artelier_lab.torture.world.faults import WorldCrash, WorldFaults
from artelier_lab.torture.world.scenario import Drawn, draw_world, drawn_action
from artelier_lab.torture.world.trial import try_world


def test_worlds_hold_every_promise(tmp_path: Path) -> None:
    verdicts = [try_world(seed, tmp_path) for seed in (1, 8)]

    assert [verdict.findings for verdict in verdicts] == [[], []]
    faults = Counter[str]()
    for verdict in verdicts:
        faults.update(verdict.counts)
    assert sum(n for fault, n in faults.items() if "crash" in fault) > 2
    assert faults["world: not compared"] == 0, "hashes after crashes were compared"


def test_every_action_is_drawn_and_most_are_well_formed() -> None:
    drawn = [action_from(drawn_action({"agent_id": "a1", "seed": seed}, 8)) for seed in range(2_000)]

    names = {action.name for action in drawn if not isinstance(action, Rejected)}
    assert names == set(ACTIONS)
    assert 0 < sum(isinstance(action, Rejected) for action in drawn) < 100


def test_a_token_among_facts_is_noticed() -> None:
    rule = Drawn(5)

    rule({"agent_id": "a1", "seed": 7, "inbox": [{"text": "token-0123456789abcdef"}]})

    assert rule.seen == [("a1", "token-0123456789abcdef")]


def test_the_same_seed_draws_the_same_world() -> None:
    assert draw_world(5).things == draw_world(5).things
    assert draw_world(5).config == draw_world(5).config


def test_a_dead_process_does_nothing_any_more() -> None:
    faults = WorldFaults(3)
    with pytest.raises(WorldCrash):
        faults.die("now")

    with pytest.raises(WorldCrash):
        faults("commit.before")
    with pytest.raises(WorldCrash):
        faults.event()


def test_a_world_is_left_for_whoever_looks_into_a_failure(tmp_path: Path) -> None:
    try_world(2, tmp_path)

    with sqlite3.connect(tmp_path / "2-world.db") as db:
        ticks = db.execute("SELECT tick FROM worlds").fetchall()
    db.close()
    assert ticks == [(draw_world(2).ticks,)]
