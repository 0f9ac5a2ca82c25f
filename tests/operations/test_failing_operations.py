"""An operation that fails, in each of its ways: its author sees words, scope and reason, others no secret."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, ModelRequest, OperationProfile, Session, tool
from artelier.errors import ModelRefusedCall, ModelTimeout, RateLimited, ToolFailed
from artelier.ports.model import Price
from artelier.testing import ScriptedModel
from tests.operations.chats import play
from tests.operations.profiles import template
from tests.plugins.conftest import Install, install
from tests.processes import children
from tests.server.routes.served import good, refused, serving

__all__ = ["install"]

SECRET = "CANARY77"
READS = "ctx.art['x'].value"
BOOM = f"def run(ctx):\n    return int({READS})\n"
FOREVER = f"def run(ctx):\n    seen = {READS}\n    while True:\n        pass\n"
CRAVING = f"def run(ctx):\n    return len([{READS}] * 10 ** 9)\n"
TOO_MUCH = f"def run(ctx):\n    return {READS} * 400000\n"
EFFECTS = "def run(ctx):\n    return {'value': 1, 'effects': [%s]}\n"
FOLLOWED = "def run(ctx):\n    return {'value': ctx.art['x'].value, 'effects': [%s]}\n"
ASIDE = "{'type': 'prompt.system_update', 'mode': 'append', 'text': ctx.art['x'].value}"
DECLARED = {"type": "artifact.upsert", "tag": "own", "usage": "internal"}
KEPT = "{'type': 'artifact.upsert', 'tag': '%s', 'usage': 'internal'}"
LONG_LOOP: dict[str, Any] = {"timeout_s": 60, "limits": {"time_ms": 10_000}}
ENDLESS = "{% for i in (1..900000) %}{% for j in (1..900000) %}{{ art.x.value }}{% endfor %}{% endfor %}"


def code(text: str, **params: Any) -> dict[str, Any]:
    return {"kind": "compute", "params": {"code": text, **params}}


def rendered(text: str) -> dict[str, Any]:
    return {"kind": "template", "params": {"template": text}}


def steps(*listed: dict[str, Any], source: str = "art.x") -> dict[str, Any]:
    return {"kind": "transform", "params": {"input": source, "steps": list(listed)}}


def asked(**params: Any) -> dict[str, Any]:
    return {"kind": "llm", "params": {"prompt": "About {{ art.x.value }}", **params}}


def found(**source: Any) -> dict[str, Any]:
    return {"kind": "rag", "params": {"query": "{{ art.x.value }}", "source": source}}


def judged(**params: Any) -> dict[str, Any]:
    return {"kind": "guard", "params": {"output_contract": ["yes"], **params}}


@tool(side_effect=False)
async def search_town(words: str) -> str:
    """Fail with the words."""
    raise ToolFailed(f"nothing about {words}")


WAYS: dict[str, dict[str, Any]] = {
    "code_error": code(BOOM),
    "timeout": code(FOREVER, timeout_s=1),
    "memory": code(CRAVING),
    "too_large": code(TOO_MUCH),
    "bad_return": code(f"def run(ctx):\n    return {READS}\n", returns="effects"),
    "invalid_effect": code(
        EFFECTS % "{'type': 'nothing.of_the_kind', 'text': ctx.art['x'].value}", returns="effects"
    ),
    "template_undefined": rendered("{{ art.x.value }} {{ nobody.knows }}"),
    "template_limit": rendered(ENDLESS),
    "missing_input": steps({"op": "trim"}, source="art.nothing"),
    "empty_prompt": asked(prompt="{% if art.x.value == 'no' %}never{% endif %}"),
    "output_invalid": asked(output="json", retries=0),
    "not_json": code(f"def run(ctx):\n    return {{{READS}: float('nan')}}\n"),
    "wrong_hook": code(FOLLOWED % ASIDE, returns="effects"),
    "invalid_effect/its type": code(EFFECTS % "{'type': ctx.art['x'].value}", returns="effects"),
    "invalid_effect/a field": code(
        EFFECTS % "{'type': 'artifact.upsert', 'tag': 'own', ctx.art['x'].value: 1}", returns="effects"
    ),
    "tag_not_declared": code(FOLLOWED % (KEPT % "other"), returns="effects", effects=[DECLARED]),
    "effect_not_declared": code(
        FOLLOWED % "{'type': 'turn.assistant_variant.patch', 'mode': 'append', 'text': ctx.art['x'].value}",
        returns="effects",
    ),
    "too_many_effects": code(
        FOLLOWED % ", ".join([KEPT % "own"] * 65), returns="effects", effects=[DECLARED]
    ),
    "template_error": rendered("{{ art.x.value | divided_by: 0 }}"),
    "output_invalid/template": {
        "kind": "template",
        "params": {"template": "{{ art.x.value }}", "output": "json"},
    },
    "output_invalid/guard": judged(template="{{ art.x.value }}"),
    "output_invalid/asked guard": judged(prompt="Is it {{ art.x.value }}?", retries=0),
    "transform_error": steps({"op": "extract", "path": "$.a"}),
    "transform_no_match": steps({"op": "extract", "regex": "[0-9]{9}"}),
    "transform_timeout": steps({"op": "extract", "regex": "(a|aa)+b"}, source="{{ art.x.value }}" + "a" * 60),
    "transform_too_large": steps(*[{"op": "regex", "pattern": ".", "replace": "x" * 900}] * 2),
    "tool_error": {
        "kind": "tool",
        "params": {"name": "search_town", "arguments": {"words": "{{ art.x.value }}"}},
    },
    "tool_error/no such tool": {
        "kind": "tool",
        "params": {"name": "nobody", "arguments": {"words": "{{ art.x.value }}"}},
    },
    "max_cost": asked(model="test:dear", max_cost_usd="0.000001"),
    "price_unknown": asked(model="test:priceless", max_cost_usd="1"),
    "unknown_model": asked(model="test:nobody"),
    "model_refused_call": asked(model="test:refuses"),
    "rate_limited": asked(model="test:busy"),
    "timeout/of the model": asked(model="test:late"),
    "not_found": found(documents=["lore/nowhere@1"]),
    "access_denied": found(documents=["secrets/town@1"]),
    "code_invalid": code(f"def run(ctx):\n    raise ModuleNotFoundError({READS})\n"),
    "deadline": code(FOREVER, **LONG_LOOP),
    "sandbox_failed": code(FOREVER, **LONG_LOOP),
    "unknown_kind": {"kind": "loud", "params": {"text": "x"}},
    "dependency_failed": {**rendered("x"), "depends_on": ["secret", "broken"], "required": True},
    "operation_failed/of a plugin": {"kind": "rude", "params": {"effects": []}},
    "operation_failed/with no words": {"kind": "mute", "params": {"effects": []}},
}
"""What fails with which code; each has read a secret, or could have."""

PLUGIN = """
from artelier.operations.kinds import OperationKind, OperationResult
from artelier.operations.profile.definition import Params


class LoudParams(Params):
    text: str


class Mute(Exception):
    def __str__(self):
        raise self


async def loud(call):
    return OperationResult(value=call.params.text.upper())


async def rude(call):
    raise ValueError(call.scope.names["art"]["x"]["value"])


async def mute(call):
    raise Mute(call.scope.names["art"]["x"]["value"])


LOUD = OperationKind(name="loud", params=LoudParams, run=loud)
RUDE = OperationKind(name="rude", params=Params, run=rude)
MUTE = OperationKind(name="mute", params=Params, run=mute)
"""
KINDS = {"loud": "acme_kinds:LOUD", "rude": "acme_kinds:RUDE", "mute": "acme_kinds:MUTE"}
ABORTED = frozenset(("deadline",))
"""Codes of operations that were stopped with their run."""


def profile(failing: dict[str, Any]) -> OperationProfile:
    # No model, and no search of one, is given what is internal.
    usage = (
        "prompt_only" if failing["kind"] in ("llm", "rag") or "prompt" in failing["params"] else "internal"
    )
    operation = {
        "operation_id": "fails",
        "order": 2,
        "hooks": ["after_main_llm"],
        "depends_on": ["secret"],
        **failing,
    }
    broken = {**operation, **rendered("{{ art.x.value | divided_by: 0 }}"), "operation_id": "broken"}
    broken |= {"depends_on": ["secret"], "required": False}
    after = template("waits", "x", order=3, depends_on=["fails"], required=True)
    before = [template("secret", SECRET, tag="x", usage=usage)]
    before += [broken] if "broken" in failing.get("depends_on", ()) else []
    return OperationProfile.parse({"profile_id": "p", "operations": [*before, operation, after]})


def answer(request: ModelRequest) -> str:
    return f"not JSON: {request.messages[-1].text}"


def models() -> dict[str, ScriptedModel]:
    """Return models that fail, each in its way and with the words that they were asked."""

    def failing(kind: type[Exception]) -> ScriptedModel:
        def fail(request: ModelRequest) -> str:
            raise kind(f"not now: {request.messages[-1].text}")

        return ScriptedModel(fail)

    return {
        "m": ScriptedModel(answer),
        "test:dear": ScriptedModel(answer, price=Price(input=Decimal(9), output=Decimal(9))),
        "test:priceless": ScriptedModel(answer, price=None),
        "test:refuses": failing(ModelRefusedCall),
        "test:busy": failing(RateLimited),
        "test:late": failing(ModelTimeout),
    }


def prepared(folder: Path, *, plugins: tuple[str, ...] = ()) -> Kernel:
    return Kernel.open(
        folder / "state.db", models=models(), tools=[search_town], environ={}, plugins=list(plugins)
    )


async def kill_workers(before: set[int]) -> None:
    """End the sandbox's processes once there are any, as a machine short of memory does."""
    while not (workers := children() - before):
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.3)  # until the code is at work
    for worker in workers:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)


@pytest.mark.parametrize("way", WAYS)
def test_the_author_is_told_everything_and_others_no_secret(
    way: str, tmp_path: Path, install: Install
) -> None:
    install("acme-kinds", {"artelier.operation_kinds": KINDS}, {"acme_kinds": PLUGIN})
    # One kernel of this process is allowed the plugin, so that profiles may name its kinds.
    Kernel.open(":memory:", environ={}, plugins=["acme-kinds"]).close()

    async def run() -> None:
        before = children()
        with prepared(tmp_path, plugins=() if way == "unknown_kind" else ("acme-kinds",)) as kernel:
            owner = kernel.for_tenant().as_principal("user:other").artifacts
            await owner.write("secrets/town", content="private", kind="document", access="private")
            session = await Session.open(kernel, "c", model="m", profile=profile(WAYS[way]))
            if way == "deadline":
                await session.change(deadline_s=4)
            killer = asyncio.create_task(kill_workers(before)) if way == "sandbox_failed" else None
            result = await session.generate("hello")
            if killer is not None:
                await killer
            code = way.partition("/")[0]
            assert result.operations["fails"] == ("aborted" if code in ABORTED else "error")
            shown = await session.show(result.run_id)
            told = json.dumps(shown, default=str)
            assert SECRET not in told
            (public,) = [one for one in shown["operations"] if one["operation_id"] == "fails"]
            assert public.get("code") == code, public
            inner = await session.show(result.run_id, internal=True)
            (own,) = [one for one in inner["operations"] if one["operation_id"] == "fails"]
            assert own.get("code") == code and own.get("message")
            assert own.get("scope", {})["art"]["x"]["value"] == SECRET
            assert own.get("scope", {})["text"] == "hello"

    play(run())


def test_over_http_a_viewer_has_the_code_and_an_operator_the_words(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path, answer) as served:
            desk = served.kernel.for_tenant("default")
            session = await Session.open(desk, "c", model="m", profile=profile(WAYS["code_error"]))
            result = await session.generate("hello")
            query = {"run_id": result.run_id}
            seen = await served.vic.get("/sessions/c/explain", params=query)
            assert SECRET not in seen.text and "code_error" in seen.text
            refused(await served.vic.get("/sessions/c/debug", params=query), 403)
            scope = {**query, "operation": "fails"}
            refused(await served.vic.get("/sessions/c/debug/scope", params=scope), 403)
            again = {"run_id": result.run_id, "operation_id": "fails"}
            refused(await served.vic.post("/sessions/c/debug/again", json=again), 403)
            full = good(await served.ada.get("/sessions/c/debug", params=query))
            assert SECRET in json.dumps(full)
            assert SECRET in json.dumps(good(await served.ada.get("/sessions/c/debug/scope", params=scope)))

    play(run())
