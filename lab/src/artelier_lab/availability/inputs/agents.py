"""Agents of the attacker: schemas of its choice, and replies and tool results that fit nothing."""

from __future__ import annotations

import json

from artelier_lab.availability.inputs.builders import posting
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


INPUTS = (
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
    _agent("runs-flood", "decent", "decent", count=200),
)
