"""Values that are larger than what a run remembers of its unwritten content."""

from __future__ import annotations

import asyncio
from pathlib import Path

from artelier import Kernel, OperationProfile, Session
from artelier.testing import ScriptedModel

CODE = "def run(ctx):\n    return 'x' * 300000\n"


def _profile() -> OperationProfile:
    large = [
        {
            "operation_id": f"large{number}",
            "kind": "compute",
            "order": number,
            "params": {
                "code": CODE,
                "effects": [{"type": "artifact.upsert", "tag": f"t{number}", "usage": "ui_only"}],
            },
        }
        for number in range(3)
    ]
    counted = {
        "operation_id": "counted",
        "kind": "template",
        "order": 9,
        "depends_on": ["large0"],
        "params": {
            "template": "{{ deps.large0 | size }}",
            "effects": [{"type": "artifact.upsert", "tag": "count", "usage": "ui_only"}],
        },
    }
    return OperationProfile.parse({"profile_id": "large", "operations": [*large, counted]})


def test_large_values_are_read_back_before_they_are_durable(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = ScriptedModel(lambda _: "y" * 200_000)
        with Kernel.open(tmp_path / "state.db", models={"m": model}) as kernel:
            session = await Session.open(
                kernel, "c", model="m", profile=_profile(), max_output_tokens=100_000
            )
            first = await session.generate("hello")
            second = await session.generate("and again")

            assert second.failed is None, second.failed
            assert (first.status, second.status) == ("completed", "completed")
            assert len(second.text) == 200_000
            assert set(second.operations.values()) == {"done"}
            assert await session.art("count") == "300000"
            assert len(await session.art("t2")) == 300_000

    asyncio.run(scenario())
