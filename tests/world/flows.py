"""Workflows for tests of worlds, and what became of them."""

from __future__ import annotations

from typing import Any

from artelier.log import blob_name
from artelier.world import World
from tests.world.places import add, events


def auto(state: str, to: str | None = None) -> dict[str, Any]:
    return {"state": state, "transition_mode": "auto", "transition_to": to or state}


def when(state: str, **branches: str) -> dict[str, Any]:
    conditions = [{"to": to, "condition": text} for to, text in branches.items()]
    return {"state": state, "transition_mode": "condition", "transition_conditions": conditions}


def llm(state: str, **more: Any) -> dict[str, Any]:
    return {"state": state, "transition_mode": "llm", **more}


def flow(*steps: dict[str, Any]) -> dict[str, Any]:
    states = [step["state"] for step in steps]
    return {"states": states, "initial_state": states[0], "steps": list(steps)}


async def worker(world: World, *steps: dict[str, Any], **more: Any) -> None:
    """An agent `ana` with a workflow of these steps."""
    await world.as_principal("ana").artifacts.write("wf", kind="workflow", content=flow(*steps))
    await add(world, ana={"workflow_artifact_id": "wf", **more})


async def moves(world: World) -> list[tuple[str, str, str]]:
    return [(d["origin"], d["to"], d["how"]) for _, _, d in await events(world, "agent.moved")]


async def words(world: World, ref: str) -> str:
    return (await world.host.services.store.blob(world.host.id, blob_name(ref))).decode()
