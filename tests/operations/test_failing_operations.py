"""An operation that fails, in each of its ways: its author sees words, scope and reason, others no secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from artelier import ModelRequest, OperationProfile, Session
from tests.operations.chats import opened, play
from tests.operations.profiles import template
from tests.server.routes.served import good, refused, serving

SECRET = "CANARY77"
READS = "ctx.art['x'].value"
BOOM = f"def run(ctx):\n    return int({READS})\n"
FOREVER = f"def run(ctx):\n    seen = {READS}\n    while True:\n        pass\n"
CRAVING = f"def run(ctx):\n    return len([{READS}] * 10 ** 9)\n"
TOO_MUCH = f"def run(ctx):\n    return {READS} * 400000\n"
EFFECTS = "def run(ctx):\n    return {'value': 1, 'effects': [%s]}\n"
ENDLESS = "{% for i in (1..900000) %}{% for j in (1..900000) %}{{ art.x.value }}{% endfor %}{% endfor %}"


def code(text: str, **params: Any) -> dict[str, Any]:
    return {"kind": "compute", "params": {"code": text, **params}}


def rendered(text: str) -> dict[str, Any]:
    return {"kind": "template", "params": {"template": text}}


def steps(*listed: dict[str, Any], source: str = "art.x") -> dict[str, Any]:
    return {"kind": "transform", "params": {"input": source, "steps": list(listed)}}


def asked(**params: Any) -> dict[str, Any]:
    return {"kind": "llm", "params": {"prompt": "About {{ art.x.value }}", **params}}


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
}
"""What fails with which code; each has read a secret, or could have."""


def profile(failing: dict[str, Any]) -> OperationProfile:
    usage = "prompt_only" if failing["kind"] == "llm" else "internal"  # a model is not asked about the latter
    operation = {
        "operation_id": "fails",
        "order": 2,
        "hooks": ["after_main_llm"],
        "depends_on": ["secret"],
        **failing,
    }
    after = template("waits", "x", order=3, depends_on=["fails"], required=True)
    return OperationProfile.parse(
        {
            "profile_id": "p",
            "operations": [template("secret", SECRET, tag="x", usage=usage), operation, after],
        }
    )


def answer(request: ModelRequest) -> str:
    return f"not JSON: {request.messages[-1].text}"


@pytest.mark.parametrize("way", WAYS)
def test_the_author_is_told_everything_and_others_no_secret(way: str, tmp_path: Path) -> None:
    async def run() -> None:
        with opened(tmp_path, answer) as kernel:
            session = await Session.open(kernel, "c", model="m", profile=profile(WAYS[way]))
            result = await session.generate("hello")
            assert result.operations["fails"] == "error"
            shown = await session.show(result.run_id)
            told = json.dumps(shown, default=str)
            assert SECRET not in told
            (public,) = [one for one in shown["operations"] if one["operation_id"] == "fails"]
            assert public.get("code") == way, public
            inner = await session.show(result.run_id, internal=True)
            (own,) = [one for one in inner["operations"] if one["operation_id"] == "fails"]
            assert own.get("code") == way and own.get("message")
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
