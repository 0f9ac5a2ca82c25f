"""Runs a program as the hand-written code of an agent would: steps in a row, side by side, in children."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

from artelier.app import TenantKernel
from artelier.errors import ArtelierError, ReplayMismatch, ToolFailed
from artelier.kernel import Limits, ModelResult, Run, ToolResult
from artelier.kernel.steps.failures import RecordedError
from artelier_lab.torture.process import Process
from artelier_lab.torture.programs.races import race
from artelier_lab.torture.script import Op, Program

TENANT = "acme"

CAUGHT = frozenset(("output_invalid", "model_refused_call", "tool_failed", "invalid_request"))
"""Failures that an agent expects and goes on after: those that would come again."""

SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}

STREAMED_CHARS = 5_000
"""Of a streamed answer that are compared; the shortest huge one of the oracle has pieces of this length."""

OFFERED = ("look", "put", "pay", "wire", "refuse", "big", "risky")


class Performer:
    """One drive of one program by one process."""

    def __init__(self, process: Process, program: Program, *, limited: bool) -> None:
        self._process = process
        self._program = program
        self._limited = limited
        self._lists: dict[str, list[dict[str, Any]]] = {}
        self._code = self._release()
        """Which version of its code this drive runs."""

    def _release(self) -> int:
        """The code that was deployed last; a replay takes the code that brought the run to its end."""
        outside, run_id = self._process.outside, self._program.run_id
        if outside.replaying:
            return max((outside.code[run] for run in outside.code if of(run) == run_id), default=0)
        now_s = self._process.loop.time()
        newest = sum(at_s <= now_s for at_s in self._program.changes_s) if self._limited else 0
        return min(newest, outside.releases.get(run_id, newest))

    def runs(self) -> TenantKernel:
        return self._process.kernel.for_tenant(TENANT)

    async def drive(self, **opening: Any) -> list[Any]:
        """Open the run and do all of it; its value. Errors: whatever ends the run otherwise."""
        program = self._program
        opened = self.runs().run(
            program.run_id,
            on_wait=program.on_wait,
            limits=self._limits(program.limits),
            replay=program.replay,
            **opening,
        )
        try:
            async with opened as run:
                value = await self._ops(run, program.ops, program.run_id)
                if run.core.actor is not None:
                    self._process.outside.code[run.id] = self._code
                    run.finish(value)
        except ReplayMismatch:
            if self._code:  # whoever sees this goes back to the code before
                self._process.outside.releases[program.run_id] = self._code - 1
            raise
        return value

    def _limits(self, limits: dict[str, Any]) -> Limits | None:
        return Limits(**limits) if limits and self._limited else None

    async def _ops(self, run: Run, ops: tuple[Op, ...], scope: str) -> list[Any]:
        return [await self._op(run, op, scope) for op in ops]

    async def _op(self, run: Run, op: Op, scope: str) -> Any:
        try:
            return await _KINDS[op.kind](self, run, op, scope)
        except RecordedError as error:
            return {"error": error.facts["name"]}
        except ZeroDivisionError:
            return {"error": "ZeroDivisionError"}
        except ArtelierError as error:
            if error.code not in CAUGHT:
                raise
            return {"error": error.code}

    def named(self, run: Run) -> str:
        """Return what the run calls itself when it asks models and tools."""
        return run.id

    def _tag(self, run: Run, op: Op) -> str:
        return f"[[{self.named(run)}|{op.path}]]"

    # Models

    async def ask(self, run: Run, op: Op, scope: str) -> Any:
        conversation = run.conversation(scope.replace("/", "-"))
        asked: dict[str, Any] = {
            "model": "m",
            "messages": self._messages(run, op, scope),
            "tools": _offered(op),
            "output": SCHEMA if op.options["output"] else None,
            "max_output_tokens": op.options["max_output_tokens"],
            "key": op.path if op.options["key"] else None,
        }
        if op.options["stream"]:
            last: Any = None
            async for item in run.stream_model(**asked):
                last = item
            result = last
        else:
            result = await run.step_model(**asked)
        assert isinstance(result, ModelResult)
        self._process.outside.keys[f"{self.named(run)}|{op.path}"] = result.key
        conversation.append(result)
        values = [await self._called(run, op, result, conversation.append)]
        # Budgets exist under faults alone, and a stream ends where its money does: after its first piece at
        # the earliest, and the pieces of what is so long are longer than this.
        text = result.text[:STREAMED_CHARS] if op.options["stream"] else result.text
        return {"text": _digest(text), "output": result.output, "calls": values}

    async def _called(
        self, run: Run, op: Op, result: ModelResult, append: Callable[[ToolResult], None]
    ) -> list[Any]:
        calls = result.tool_calls
        if len(calls) == 1:
            results = [await run.step_tool(calls[0].name, calls[0].arguments, call=calls[0])]
        else:
            results = await run.parallel(
                *(
                    run.step_tool(call.name, call.arguments, call=call, key=f"{op.path}-c{number}")
                    for number, call in enumerate(calls)
                )
            )
        for item in results:
            append(item)
        return [_told(item) for item in results]

    def _messages(self, run: Run, op: Op, scope: str) -> Any:
        text = f"{self._tag(run, op)} {'word ' * (len(op.path) * 7)}"
        form = op.options["messages"]
        user = {"role": "user", "content": text}
        if form == "plain":
            return [user]
        if form == "system":
            return [{"role": "system", "content": "You are tortured."}, user]
        if form == "two":
            known = self._lists.setdefault(scope, [])
            known += [user]
            shown = list(known)
            known += [{"role": "assistant", "content": "noted"}]
            return shown
        conversation = run.conversation(scope.replace("/", "-"))
        conversation.append(user)
        return conversation if form == "conversation" else conversation.tail(3)

    # Tools and computation

    async def use(self, run: Run, op: Op, scope: str) -> Any:
        arguments: dict[str, Any] = {"op": f"{self.named(run)}|{op.path}", "amount": op.options["amount"]}
        if not op.options["valid"]:
            arguments = {"op": 7, "surprise": True}
        return _told(await run.step_tool(op.options["tool"], arguments, key=op.options.get("key")))

    async def compute(self, run: Run, op: Op, scope: str) -> Any:
        async def work(path: str) -> Any:
            self._process.check_alive()
            if op.options["slow"]:
                await self._process.kernel.services.clock.sleep(1.5)
            if op.options["fails"]:
                raise ToolFailed(f"cannot compute {path}")
            return {"computed": path, "n": len(path)}

        return await run.step("work", work, op.path)

    # Undoing, and code that changes

    async def changed(self, run: Run, op: Op, scope: str) -> Any:
        """An order that some versions of the code place for another amount."""
        amount = op.options["amount"] + sum(self._code >= one for one in op.options["changed_in"])
        arguments = {"op": op.path, "amount": amount}
        done = await run.step_tool(op.options["tool"], arguments, key=op.options["key"])
        # What a fork shares with its origin is not compared again.
        if self._program.replay == "strict" and not done.is_error and done.value["paid"] != amount:
            self._process.outside.violations.append(
                f"{run.id} asked for an order of {amount} and was given {done.value}"
            )
        return "ordered"

    async def taken_back(self, run: Run, op: Op, scope: str) -> Any:
        """Undo all, of whatever run this is or goes on for; that is the same under any code."""
        back = await run.compensate(note="taken back", upto=op.options["upto"], key=op.path)
        return {"stays": list(back.not_undone)}

    async def compensate(self, run: Run, op: Op, scope: str) -> Any:
        back = await run.compensate(note="taken back", upto=op.options["upto"], key=op.path)
        return {"undone": list(back.undone), "not_undone": list(back.not_undone)}

    async def version(self, run: Run, op: Op, scope: str) -> Any:
        """The code of each drive is another one; a run stays with what it began with."""
        number = await run.version(op.path, self._process.plan.rng.randint(1, 9))
        seen = await run.step("seen", lambda: number, key=f"seen-{op.path}")
        return {"same": seen == number}

    # People and time

    async def approve(self, run: Run, op: Op, scope: str) -> Any:
        approval = await run.approve(
            "go on", {"op": f"{run.id}|{op.path}"}, expires_s=op.options["expires_s"]
        )
        if op.options["expires_s"] is not None:
            return "asked"  # the clock may have been faster
        return {"decision": approval.decision, "arguments": approval.arguments}

    async def sleep(self, run: Run, op: Op, scope: str) -> Any:
        await run.sleep(op.options["seconds"])
        return "slept"

    async def wait(self, run: Run, op: Op, scope: str) -> Any:
        try:
            await run.wait_for(op.options["name"], timeout_s=op.options["timeout_s"])
        except TimeoutError:
            pass
        return "waited"

    async def notes(self, run: Run, op: Op, scope: str) -> Any:
        await run.notes(key=op.path if op.options["key"] else None)
        return "read"

    # Several at once

    async def gather(self, run: Run, op: Op, scope: str) -> Any:
        def part(number: int, ops: tuple[Op, ...]) -> Callable[[Run], Any]:
            return lambda branch: self._ops(branch, ops, f"{scope}-{op.path}-{number}")

        return await run.gather(*(part(n, ops) for n, ops in enumerate(op.branches)))

    async def parallel(self, run: Run, op: Op, scope: str) -> Any:
        return await run.parallel(*(self._op(run, ops[0], scope) for ops in op.branches))

    async def branch(self, run: Run, op: Op, scope: str) -> Any:
        return await self._ops(run.branch(op.path), op.branches[0], f"{scope}-{op.path}")

    async def child(self, run: Run, op: Op, scope: str) -> Any:
        opened = self.runs().run(
            f"{run.id}::{op.path}",
            parent=run,
            on_wait=self._program.on_wait,
            limits=self._limits(op.options["limits"]),
        )
        async with opened as child:
            value = await self._ops(child, op.branches[0], child.id.replace(":", "-"))
            if child.core.actor is not None:
                child.finish(value)
        return value

    async def race(self, run: Run, op: Op, scope: str) -> Any:
        return await race(run, op)


_KINDS: dict[str, Callable[[Performer, Run, Op, str], Any]] = {
    "ask": Performer.ask,
    "use": Performer.use,
    "compute": Performer.compute,
    "changed": Performer.changed,
    "taken_back": Performer.taken_back,
    "compensate": Performer.compensate,
    "version": Performer.version,
    "approve": Performer.approve,
    "sleep": Performer.sleep,
    "wait": Performer.wait,
    "notes": Performer.notes,
    "gather": Performer.gather,
    "parallel": Performer.parallel,
    "branch": Performer.branch,
    "child": Performer.child,
    "race": Performer.race,
}


def of(run_id: str) -> str:
    """The program of a run: forks in which it goes on are named after it."""
    return run_id.partition(".drift-")[0]


def _offered(op: Op) -> list[str] | None:
    if not op.options["tools"]:
        return []
    return None if op.options["max_output_tokens"] == 50 else list(OFFERED)


def _told(result: ToolResult) -> Any:
    """Return what the agent makes of a tool's result."""
    if result.is_error:
        return {"error": result.value["error"]["code"]}
    return _digest(str(result.value)) if len(result.content) > 500 else result.value


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
