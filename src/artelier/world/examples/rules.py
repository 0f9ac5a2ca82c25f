"""Rule agents of the shipped worlds: plain functions of the facts, as any host could register."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Facts = dict[str, Any]

RESERVE = 40
"""Below it nobody in the market spends on the square."""

SQUARE = (
    "ada_stall",
    "ben_stall",
    "cleo_stall",
    "dan_stall",
    "lea_work",
    "max_work",
    "nina_work",
    "oskar_work",
    "petra_work",
    "quin_work",
)

TOOLS = {"rosa": "rosa_oven", "tomas": "tomas_loom"}
DEALERS = ("dora", "emil")


def toolmaker(facts: Facts) -> dict[str, Any]:
    """Offers licences for its tool; ten uses each, sold again and again."""
    tool = TOOLS[facts["agent_id"]]
    if not any(one["artifact"] == tool for one in facts["offers"]):
        return {"action": "offer", "artifact_id": tool, "price": 15, "sells": "licence", "uses": 10}
    return _live(facts)


def museum(facts: Facts) -> dict[str, Any]:
    """Buys poems from dealers and tells visitors how many there are."""
    last = facts["last_action"]
    if last["type"] == "accept" and last["success"]:
        count = sum(one.startswith("poem_") for one in facts["my_artifacts"])
        code = f"def run():\n    return 'poems to be seen: {count}'\n"
        return {"action": "write", "artifact_id": "museum", "content": {"code": code}}
    for one in facts["offers"]:
        is_poem = one["seller"] in DEALERS and one["sells"] == "ownership"
        if is_poem and facts["balance"] >= one["price"] + 10:
            return {"action": "accept", "offer_id": one["offer"], "price_max": 16}
    return _live(facts)


def _live(facts: Facts) -> dict[str, Any]:
    if facts["balance"] < RESERVE:
        return {"action": "noop"}
    return {"action": "invoke", "artifact_id": SQUARE[facts["seed"] % len(SQUARE)], "price_max": 6}


POLICIES: Mapping[str, Callable[[Facts], Any]] = {"market.toolmaker": toolmaker, "market.museum": museum}
