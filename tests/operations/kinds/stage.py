"""What the tests of kinds stand on: one execution of an operation in a real run, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from artelier import Kernel, Run
from artelier.app import TenantKernel
from artelier.errors import ArtelierError, Flow
from artelier.operations.kinds import OperationCall, OperationResult, OperationScope, kind_named
from artelier.operations.profile.definition import Operation

PRINCIPAL = "agent:reader"

SAID = (
    {"role": "user", "content": "Hello {{ art.secret.value }}", "name": "Ann"},
    {"role": "assistant", "content": "The tavern is loud tonight.", "name": "Bo"},
    {"role": "user", "content": "I draw my sword!", "name": "Ann"},
)


def art(value: Any, *, history: Sequence[Any] = (), version: int = 1) -> dict[str, Any]:
    earlier = [{"value": one, "version": 0, "at_us": 0} for one in history]
    return {"value": value, "history": earlier, "version": version}


def scope(*, in_prompt: Sequence[str] = (), in_ui: Sequence[str] = (), **names: Any) -> OperationScope:
    """What an operation sees; a tag is in a prompt or shown to people only if that is said."""
    known: dict[str, Any] = {
        "user": {"name": "Ann"},
        "char": {"name": "Bo"},
        "chat": {"id": "c", "branch": "main", "turn": 2, "trigger": "generate"},
        "chat_history": list(SAID),
        "messages": list(SAID),
        "text": SAID[-1]["content"],
        "rag": {},
        "deps": {},
        "art": {},
        "now": "2026-03-01T12:00:00Z",
        "run": {"id": "r", "trigger": "generate", "turn": 2},
    }
    return OperationScope(names={**known, **names}, in_prompt=frozenset(in_prompt), in_ui=frozenset(in_ui))


def problems(kind: str, params: Mapping[str, Any]) -> list[str]:
    """Codes of what is wrong with params of the right form, each with its path."""
    form = kind_named(kind)
    return [f"{one.path}: {one.code}" for one in form.problems(form.params.model_validate(params))]


async def operate(
    run: Run,
    kind: str,
    params: Mapping[str, Any],
    *,
    seen: OperationScope | None = None,
    desk: Any = None,
    seed: int = 7,
    op: str = "op",
) -> OperationResult:
    """Run one operation as a profile's run does: its steps stand below a key of its own."""
    form = kind_named(kind)
    checked = form.params.model_validate(params)
    assert not list(form.problems(checked)), problems(kind, params)
    call: OperationCall[Any] = OperationCall(
        run=Run(run.core, parent_key=f"before_main_llm/{op}"),
        operation=Operation(operation_id=op, kind=kind, order=1, params=checked),
        params=checked,
        scope=seen or scope(),
        model="m",
        principal=PRINCIPAL,
        seed=seed,
        desk=desk,
    )
    return await form.run(call)


class Bench:
    """Runs one operation after another, each in a run of its own."""

    def __init__(self, kernel: Kernel, **opening: Any) -> None:
        self.runs: TenantKernel = kernel.for_tenant()
        self.opening = opening
        self.count = 0

    async def found(self, kind: str, params: Mapping[str, Any], **more: Any) -> OperationResult:
        self.count += 1
        async with self.runs.run(f"r{self.count}", **self.opening) as run:
            given = await operate(run, kind, params, desk=self.runs, **more)
            run.finish(None)
        return given

    async def value(self, kind: str, params: Mapping[str, Any], **more: Any) -> Any:
        return (await self.found(kind, params, **more)).value

    async def error(self, kind: str, params: Mapping[str, Any], **more: Any) -> ArtelierError:
        """The error that an operation ends with; the run goes on, as a profile's does."""
        self.count += 1
        async with self.runs.run(f"r{self.count}", **self.opening) as run:
            try:
                value = (await operate(run, kind, params, desk=self.runs, **more)).value
            except Flow:
                raise
            except ArtelierError as error:
                run.finish(None)
                return error
        raise AssertionError(f"it was done and found {value!r:.200}")

    async def code(self, kind: str, params: Mapping[str, Any], **more: Any) -> str:
        return (await self.error(kind, params, **more)).code
