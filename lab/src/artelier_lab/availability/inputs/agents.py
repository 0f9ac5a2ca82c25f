"""Agents of the attacker: schemas of its choice, and replies and tool results that fit nothing."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

from artelier_lab.availability.client import Answer
from artelier_lab.availability.inputs.builders import counted, many, posting
from artelier_lab.availability.scene import Input, Scene


def _agent(name: str, reply: str, decent: str, *, count: int = 1) -> Input:
    async def attack(scene: Scene) -> str:
        return await scene.run_agent(reply, count=count)

    async def twin(scene: Scene) -> bool:
        return await scene.run_agent(decent) == "completed"

    return Input(name=name, attack=attack, twin=twin)


def _task(pattern: str) -> bytes:
    checks = [{"kind": "regex", "pattern": pattern}]
    return json.dumps({"goal": "Write a code.", "success_criteria": "It fits.", "checks": checks}).encode()


def _checks(name: str, pattern: str) -> Input:
    return posting(f"check-{name}", "/tasks", lambda id: _task(pattern), lambda id: _task("^a+b$"))


async def _say(scene: Scene, text: str) -> Answer:
    await scene.attacker.post("/sessions", {"id": scene.name, "model": "reply:decent"})
    return await scene.attacker.post(f"/sessions/{scene.name}/turns", {"text": text})


async def _order(scene: Scene, text: str) -> Answer:
    asked = {"goal": text, "success_criteria": "It is there.", "id": f"tasks/{scene.name}"}
    return await scene.attacker.post("/tasks", asked)


def _spoken(name: str, say: Callable[[Scene, str], Awaitable[Answer]], text: str) -> Input:
    """An input of what a person says."""

    async def attack(scene: Scene) -> str:
        return counted([await say(scene, text)])

    async def twin(scene: Scene) -> bool:
        return (await say(scene, "Write a note.")).is_good

    return Input(name=name, attack=attack, twin=twin)


_OF_A_RUN = ("", "/steps", "/steps?last=true", "/cost", "/calls", "/tree", "/approvals", "/diff?with={}-0")
"""What is shown of a run: it may have as many steps as its agent likes."""


async def _look_at_run(scene: Scene) -> list[Answer]:
    pages = [f"/runs/{scene.name}-0{page.format(scene.name)}" for page in _OF_A_RUN]
    return await many(4 * len(pages), lambda n: scene.attacker.get(pages[n % len(pages)], within_s=60.0))


async def _long_run(scene: Scene) -> str:
    await scene.run_agent("many-calls")
    return counted(await _look_at_run(scene))


async def _short_run(scene: Scene) -> bool:
    await scene.run_agent("decent-call")
    return all(answer.is_good for answer in await _look_at_run(scene))


ADDRESSES = " ".join(f"a{number}@b.co" for number in range(48_000))
"""Values that all differ: each has a placeholder of its own."""

INPUTS = (
    _spoken("turn-card-digits", _say, "4111 1111 1111 1112 " * 48_000),
    _spoken("turn-long", _say, "word " * 190_000),
    _spoken("turn-addresses", _say, ADDRESSES),
    _spoken("goal-addresses", _order, ADDRESSES),
    _spoken("goal-card-digits", _order, "4111 1111 1111 1112 " * 48_000),
    _agent("schema-nested-repeats", "schema-nested", "decent-schema"),
    _agent("schema-polynomial", "schema-polynomial", "decent-schema"),
    _agent("schema-counted-repeats", "schema-counted", "decent-schema"),
    _agent("schema-wide-reply", "schema-wide", "decent-schema"),
    _checks("nested-repeats", "(a+)+b"),
    _checks("counted-repeats", "((a{1000}){100}){100}"),
    _checks("alternatives", "|".join(f"a{n}" for n in range(150))),
    _agent("reply-long", "long-reply", "decent"),
    _agent("reply-card-digits", "cards-reply", "decent"),
    _agent("reply-many-calls", "many-calls", "decent-call"),
    _agent("reply-deep-arguments", "deep-arguments", "decent-call"),
    _agent("result-deep", "deep-result", "decent-call"),
    _agent("result-wide", "wide-result", "decent-call"),
    _agent("result-long", "long-result", "decent-call"),
    _agent("result-card-digits", "cards-result", "decent-call"),
    _agent("result-integers", "integers-result", "decent-call"),
    Input(name="run-long", attack=_long_run, twin=_short_run),
    _agent("runs-flood", "decent", "decent", count=200),
)
