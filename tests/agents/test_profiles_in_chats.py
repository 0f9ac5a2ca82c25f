"""A chat of an agent whose operations ask models of their own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from artelier import AutonomousAgent, Kernel, OperationProfile
from artelier.testing import ScriptedModel

MOOD = OperationProfile.parse(
    {
        "profile_id": "moods",
        "operations": [
            {
                "operation_id": "mood",
                "kind": "llm",
                "order": 1,
                "hooks": ["after_main_llm"],
                "params": {
                    "prompt": "Mood of: {{ text }}",
                    "effects": [{"type": "artifact.upsert", "tag": "mood", "usage": "ui_only"}],
                },
            }
        ],
    }
)


def _answer(request: Any) -> str:
    asked = request.messages[-1].text
    return "happy" if asked.startswith("Mood of:") else f"You said {asked}."


def test_the_next_turn_begins_with_what_was_said_not_with_what_operations_asked(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = ScriptedModel(_answer)
        with Kernel.open(tmp_path / "state.db", models={"m": model}) as kernel:
            agent = AutonomousAgent(kernel=kernel, identity="A friend.", profile=MOOD)
            chat = agent.chat("c", model="m")
            await chat.send("Hi there")
            await chat.send("See you")

        asked = [request.messages[-1].text for request in model.requests]
        last = next(one for one in model.requests if one.messages[-1].text == "See you")
        assert asked == ["Hi there", "Mood of: Hi there", "See you", "Mood of: See you"]
        assert [(one.role, one.text) for one in last.messages][1:] == [
            ("user", "Hi there"),
            ("assistant", "You said Hi there."),
            ("user", "See you"),
        ]

    asyncio.run(scenario())
