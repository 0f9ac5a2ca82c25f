"""The economy of worlds conforms: consent, circulation, and no strategy without work above the median.

`artelier bench economy` passes 1,000 ticks of each society; here are fewer.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier.testing.economy import SOCIETIES, EconomyReport, consent_findings, play_society
from tests.world.places import add, world_at

RULE = {"policy": "rule"}


def played(folder: Path, name: str, *, ticks: int = 40, seed: int = 1, **world: Any) -> EconomyReport:
    return asyncio.run(play_society(name, folder, ticks=ticks, seed=seed, world=world))


@pytest.mark.parametrize("name", SOCIETIES)
def test_nobody_overpays_money_stays_in_hands_and_idlers_earn_nothing(tmp_path: Path, name: str) -> None:
    report = played(tmp_path, name)

    assert report.findings == []
    assert report.ticks == 40 and report.payments > 50


@pytest.mark.parametrize("activation", ["random", "staged"])
def test_consent_holds_however_agents_take_turns(tmp_path: Path, activation: str) -> None:
    stages = [["raise0", "w1", "w3", "squat0"], ["w2"]] if activation == "staged" else []

    report = played(tmp_path, "siege", activation=activation, stages=stages)

    assert report.overpaid == ()


@pytest.mark.parametrize("name", SOCIETIES)
def test_the_suite_finds_what_older_rules_allowed(tmp_path: Path, name: str) -> None:
    report = played(tmp_path, name, ticks=40, rules=1)

    assert any("pays 50" in text for text in report.overpaid)
    assert report.gains["raise"] > report.median_gain
    assert any(text.startswith("raise has gained") for text in report.findings)
    if name == "memory":
        assert "agents had " in " ".join(report.findings)


def test_a_price_that_was_seen_or_said_is_no_finding(tmp_path: Path) -> None:
    """The books judge a world that was not made for them; what agents said comes as caps."""

    def rule(facts: dict[str, Any]) -> Any:
        if facts["agent_id"] == "bob":
            return {
                "action": "write",
                "artifact_id": "doc",
                "content": str(facts["tick"]),
                "prices": {"read": 10 * facts["tick"]},
            }
        return {"action": "read", "ref": "doc", "price_max": 99}

    async def scenario() -> None:
        async with world_at(tmp_path, policies={"rule": rule}) as w:
            bob = w.as_principal("bob").artifacts
            await bob.write("doc", kind="document", content="0", prices={"read": 0})
            await add(w, ana=RULE, bob=RULE)
            await w.run(ticks=3)
            said = {("ana", tick): 99 for tick in (1, 2, 3)}
            assert await consent_findings(w, caps=said) == []
            found = await consent_findings(w)
            assert found and all("reading doc, and saw" in text for text in found)

    asyncio.run(scenario())
