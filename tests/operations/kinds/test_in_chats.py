"""All kinds in turns of a chat, through its public door: values, guards, I9, time limits, hostile replies."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from artelier import Kernel, ModelReply, ModelRequest, tool
from artelier.chat.session.session import Session
from artelier.operations import events as ev
from artelier.operations.profile.operation_profile import OperationProfile
from artelier.testing import ScriptedModel
from tests.kernel.stage import events, open_kernel, play

SECRET = "xyzzy-4711"


def _op(id_: str, kind: str, params: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"operation_id": id_, "kind": kind, "order": 1, "params": params, **more}


def _keeps(tag: str, usage: str = "prompt+ui") -> list[dict[str, Any]]:
    return [{"type": "artifact.upsert", "tag": tag, "usage": usage}]


AFTER = {"hooks": ["after_main_llm"]}

OPERATIONS: list[dict[str, Any]] = [
    _op(
        "secret",
        "compute",
        {
            "code": f"def run(ctx):\n    return {{'code': {SECRET!r}, 'roll': 5}}",
            "effects": _keeps("secret", "internal"),
        },
    ),
    _op(
        "fight",
        "guard",
        {
            "output_contract": ["is_combat"],
            "template": "{% if text contains 'sword' %}true{% else %}false{% endif %}",
        },
    ),
    _op(
        "lore",
        "rag",
        {
            "source": {"documents": ["handbook"]},
            "query": "{{ text }}",
            "effects": [
                {"type": "prompt.insert_after_last_user", "text": "{{ value[0].text | default: 'no lore' }}"}
            ],
        },
    ),
    _op(
        "roll",
        "tool",
        {"name": "look_up", "arguments": {"word": "{{ art.secret.value.roll }}"}, "effects": _keeps("roll")},
        depends_on=["secret", "fight"],
        run_conditions=[{"source": "fight", "key": "is_combat", "operator": "is_true"}],
    ),
    _op(
        "note",
        "template",
        {"template": "Rolled {{ art.roll.value }}", "effects": _keeps("note")},
        depends_on=["roll"],
    ),
    _op(
        "mood",
        "llm",
        {"prompt": "Mood of: {{ reply }}", "output": "json", "effects": _keeps("mood")},
        **AFTER,
    ),
    _op(
        "loud",
        "transform",
        {
            "input": "turn.text",
            "steps": [{"op": "case", "to": "upper"}],
            "effects": [{"type": "turn.assistant_variant.patch", "mode": "replace"}],
        },
        **AFTER,
    ),
]


def _profile(operations: list[dict[str, Any]]) -> OperationProfile:
    return OperationProfile.parse({"profile_id": "p", "operations": operations})


def _reply(request: ModelRequest) -> str | ModelReply:
    """The main reply repeats nothing; the auxiliary one speaks in templates."""
    if request.messages[-1].text.startswith("Mood of"):
        return '{"mood": "{{ art.secret.value.code }}"}'
    return "{{ user.name }} strikes."


def _opened(folder: Path, reply: Any = _reply) -> tuple[Kernel, ScriptedModel]:
    @tool(side_effect=False)
    async def look_up(word: str) -> str:
        """Look up."""
        return f"<{word}>"

    model = ScriptedModel(reply)
    return open_kernel(folder, model, tools=[look_up]), model


async def _finished(kernel: Kernel, run_id: str) -> dict[str, ev.OperationFinished]:
    """How each operation of a run ended."""
    ended = [one.decode() for one in await events(kernel, run_id) if one.kind == "operation.finished"]
    return {one.operation_id: one for one in ended}


def test_all_kinds_work_in_one_turn(tmp_path: Path) -> None:
    async def scenario() -> None:
        kernel, model = _opened(tmp_path)
        with kernel:
            space = kernel.for_tenant().as_principal("operator")
            await space.artifacts.write("handbook", kind="document", content="A sword is sharp.")
            session = await Session.open(
                kernel, "c", model="m", profile=_profile(OPERATIONS), user="Ann", char="Bo"
            )
            turn = await session.generate("I draw my sword")
            assert (turn.status, set(turn.operations.values())) == ("completed", {"done"})
            assert turn.text == "{{ USER.NAME }} STRIKES."
            quiet = await session.generate("I sit down")
            assert quiet.operations["roll"] == "skipped"
            assert quiet.operations["note"] == "skipped"
            await kernel.aclose()
        main = [one for one in model.requests if "Mood of" not in one.messages[-1].text]
        first = "\n".join(message.text for message in main[0].messages)
        assert "A sword is sharp." in first
        assert "Rolled <5>" in first
        # What is internal stands in no prompt, and what a model said in templates is never rendered.
        assert all(SECRET not in m.text for one in model.requests for m in one.messages)
        again = "\n".join(message.text for message in main[1].messages)
        assert "{{ art.secret.value.code }}" in again

    play(scenario(), within_s=60)


def test_guard_that_hangs_may_be_all_false(tmp_path: Path) -> None:
    async def hang(request: ModelRequest) -> str:
        if request.messages[-1].text == "Fight?":
            await asyncio.Event().wait()
        return "ok"

    params = {"output_contract": ["is_combat"], "prompt": "Fight?", "timeout_s": 0.02}
    operations = [
        _op("strict", "guard", params),
        _op("mild", "guard", {**params, "run_on_error": "all_false"}),
        _op(
            "calm",
            "template",
            {"template": "calm"},
            depends_on=["mild"],
            run_conditions=[{"source": "mild", "key": "is_combat", "operator": "is_false"}],
        ),
    ]

    async def scenario() -> None:
        kernel, _ = _opened(tmp_path, hang)
        with kernel:
            session = await Session.open(kernel, "c", model="m", profile=_profile(operations))
            turn = await session.generate("hello")
            assert turn.operations == {"strict": "error", "mild": "done", "calm": "done"}
            ended = await _finished(kernel, turn.run_id)
            assert ended["strict"].code == "timeout"
            assert ended["mild"].details is not None
            await kernel.aclose()

    play(scenario(), within_s=60)


def test_operations_that_misbehave_end_with_their_codes(tmp_path: Path) -> None:
    """None of them stops the turn."""
    cases: list[tuple[str, dict[str, Any], str]] = [
        (
            "compute",
            {"code": "def run(ctx):\n    while True:\n        pass", "limits": {"time_ms": 30}},
            "timeout",
        ),
        ("compute", {"code": "def run(ctx):\n    return 'x' * 1_500_000"}, "too_large"),
        ("compute", {"code": "def run(ctx):\n    raise ValueError"}, "code_error"),
        ("llm", {"prompt": "garbage", "output": "json", "retries": 0}, "output_invalid"),
        ("tool", {"name": "nobody"}, "tool_error"),
        ("rag", {"source": {"documents": ["nothing"]}}, "not_found"),
        ("rag", {"source": {"memory": "other"}, "query": "x"}, "access_denied"),
        ("template", {"template": "{{ nobody }}"}, "template_undefined"),
        ("transform", {"input": "art.none", "steps": [{"op": "trim"}]}, "missing_input"),
        ("guard", {"output_contract": ["a"], "template": "maybe"}, "output_invalid"),
    ]
    operations = [_op(f"o{n}", kind, params) for n, (kind, params, _) in enumerate(cases)]

    async def scenario() -> None:
        kernel, _ = _opened(tmp_path)
        with kernel:
            await kernel.memory.for_agent("default", "other").remember("x", key="k")
            session = await Session.open(kernel, "c", model="m", profile=_profile(operations))
            turn = await session.generate("hello")
            assert turn.status == "completed"
            ended = await _finished(kernel, turn.run_id)
            assert [ended[f"o{n}"].code for n in range(len(cases))] == [code for *_, code in cases]
            await kernel.aclose()

    play(scenario(), within_s=60)
