"""A run that uses everything a run can use, and two kernels side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from artelier import Kernel, Run, Tenant, ToolContext, tool
from artelier.app import TenantKernel
from artelier.testing import ScriptedModel
from tests.kernel.files import fields_of
from tests.kernel.stage import PRICE, ask, open_kernel, user


@tool(side_effect=False)
async def look(at: str) -> dict[str, str]:
    "Look."
    return {"seen": at}


@tool(side_effect=True)
async def pay(amount: int, ctx: ToolContext) -> dict[str, int]:
    "Pay."
    await ctx.spend("0.01")
    return {"paid": amount}


@tool(side_effect=False)
async def big(size: int) -> str:
    "A result that becomes an artifact."
    return "x" * size


TOOLS = [look, pay, big]


async def everything(run: Run) -> dict[str, Any]:
    """A run with models, tools, artifacts, branches, errors and computed steps."""
    conversation = run.conversation()
    conversation.append({"role": "system", "content": "be brief"})
    for text in ("a", "b"):
        conversation.append(user(text))
        conversation.append(await run.step_model(model="m", messages=conversation, tools=["look"]))
    seen = await run.step_tool("look", {"at": "moon"})
    bad = await run.step_tool("look", {"from": "moon"})
    paid = await run.step_tool("pay", {"amount": 3})
    large = await run.step_tool("big", {"size": 200_000})
    shaped = await run.step_model(
        model="m", messages=[user('{"n": 1}')], output={"type": "object"}, key="shaped"
    )
    texts = await run.gather(lambda one: ask(one, "left"), lambda one: ask(one, "right"))
    number = await run.step("sum", lambda: 3)
    return {
        "seen": seen.value,
        "bad": bad.is_error,
        "paid": paid.value,
        "ref": large.ref,
        "shaped": shaped.output,
        "texts": texts,
        "number": number,
    }


def model() -> ScriptedModel:
    def answer(request: Any) -> str:
        text = request.messages[-1].text
        return text if request.output_schema else f"re: {text}"

    return ScriptedModel(answer, price=PRICE)


ACME = Tenant("acme", budget_usd="5.00")


def kernels(tmp_path: Path, name: str = "there", **more: Any) -> Kernel:
    folder = tmp_path / name
    folder.mkdir(exist_ok=True)
    return open_kernel(folder, more.pop("model", None) or model(), tools=TOOLS, **more)


def _anonymous(value: Any) -> Any:
    """Without the names of tenants, which an import may change."""
    if isinstance(value, dict):
        return {name: _anonymous(item) for name, item in value.items() if name != "tenant"}
    return [_anonymous(item) for item in value] if isinstance(value, list) else value


async def same_run(there: TenantKernel, here: TenantKernel, run: str, *, back: Path) -> None:
    """Every field of a run, its prompts and its content are the same in both stores."""
    for question in ("show", "steps", "tree"):
        left, right = await getattr(there, question)(run), await getattr(here, question)(run)
        assert _anonymous(right) == _anonymous(left)
    for step in await there.steps(run):
        if step["kind"] == "model":
            sent = await there.render(run, step["key"])
            assert (await here.render(run, step["key"])).canonical() == sent.canonical()
            assert await here.manifest(run, step["key"]) == await there.manifest(run, step["key"])
    first, second = back.with_suffix(".first"), back.with_suffix(".second")
    await there.export(run, first)
    await here.export(run, second)
    assert fields_of(first) == fields_of(second)
