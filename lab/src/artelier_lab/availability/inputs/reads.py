"""Requests of a few bytes whose answers are made of something large: differences of versions."""

from __future__ import annotations

from typing import Any

from artelier_lab.availability.client import Answer
from artelier_lab.availability.inputs.builders import counted
from artelier_lab.availability.scene import Input, Scene

WITHIN_S = 30.0


async def _compare(scene: Scene, before: Any, after: Any) -> Answer:
    """Write two versions, and ask for what differs."""
    id, place = f"docs/{scene.name}", f"/artifacts/docs%2F{scene.name}"
    await scene.attacker.post("/artifacts", {"id": id, "kind": "document", "content": before})
    await scene.attacker.ask("PATCH", place, json_={"content": after, "expected_version": 1})
    return await scene.attacker.get(f"{place}/diff?a=1&b=2", within_s=WITHIN_S)


async def _compare_below_long_key(scene: Scene) -> str:
    """Each pair had the whole path, which was two gigabytes together."""
    before, after = ({"k" * 200_000: {str(n): number for n in range(5_000)}} for number in (0, 1))
    return counted([await _compare(scene, before, after)])


async def _compare_small(scene: Scene) -> bool:
    answer = await _compare(scene, {"a": [1, 2]}, {"a": [1, 3]})
    return answer.is_good and answer.json()["text"] == "~ /a/1: 2 -> 3"


INPUTS = (Input(name="diff-long-key", attack=_compare_below_long_key, twin=_compare_small),)
