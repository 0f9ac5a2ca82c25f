"""The answers to a run's questions: by the person at the terminal, or by a yes given beforehand."""

from __future__ import annotations

import asyncio
import os
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from artelier.app import Kernel, TenantKernel
from artelier.cli import display
from artelier.cli.call import CliCall
from artelier.cli.narration.run_events import Watch, plan_lines, tasks_below
from artelier.errors import ArtelierError, InvalidArguments
from artelier.kernel import find_driver
from artelier.pii.scrubber_registry import redact_output

if TYPE_CHECKING:
    from artelier.kernel.queries.reports import OpenQuestion

LINE_BYTES_MAX = 65_536
"""Of one typed line."""


Asked = tuple[str, str]
"""A run and the step in which it asks."""


class _ApprovalAnswer(NamedTuple):
    """The answer of the person at the terminal."""

    is_denied: bool = False
    note: str = ""
    arguments: object = None
    """Others than those that were asked about; None for the same."""


class ApprovalDesk:
    """`async with Desk(...)` watches a run and answers what it asks.

    With `yes` everything is approved in the person's name; without, and without a terminal, nothing is
    answered and the run is told not to wait here.
    """

    def __init__(self, call: CliCall, kernel: Kernel, run_id: str, *, yes: bool) -> None:
        self._call = call
        self._kernel = kernel
        self._runs: TenantKernel = kernel.for_tenant(call.tenant)
        self._run_id = run_id
        self._yes = yes
        self._open: asyncio.Queue[Asked] = asyncio.Queue()
        self._settled: set[Asked] = set()
        self._asking: tuple[Asked, asyncio.Task[Any]] | None = None
        self._clerk: asyncio.Task[None] | None = None
        self._watch = Watch(
            kernel, call.tenant, run_id, call.screen, asked=self._enqueue, answered=self._withdraw
        )

    @property
    def answers(self) -> bool:
        """True if questions are answered here."""
        return self._yes or self._call.screen.asks

    async def __aenter__(self) -> ApprovalDesk:
        await self._watch.__aenter__()
        for run in await tasks_below(self._kernel, self._runs.id, self._run_id):
            for item in await self._runs.approvals(run):  # asked before we came
                self._open.put_nowait((run, item["step"]))
        self._clerk = asyncio.create_task(self._work())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._clerk is not None
        self._clerk.cancel()
        await asyncio.gather(self._clerk, return_exceptions=True)
        await self._watch.__aexit__(kind, error, trace)

    def _enqueue(self, run: str, step: str) -> bool:
        self._open.put_nowait((run, step))
        return self._call.screen.asks and not self._yes

    def _withdraw(self, run: str, step: str) -> None:
        """Somebody answered elsewhere: the question here is moot."""
        self._settled.add((run, step))
        if self._asking is not None and self._asking[0] == (run, step):
            self._asking[1].cancel()

    async def _work(self) -> None:
        while True:
            asked = await self._open.get()
            if asked in self._settled:
                continue
            if not self.answers:
                self._leave()
                continue
            question = await self._question(asked)
            if question is None:
                continue
            self._watch.hold()
            try:
                await self._answer(question)
            finally:
                self._watch.release()

    async def _question(self, asked: Asked) -> OpenQuestion | None:
        found = await self._runs.approvals(asked[0])
        item = next((item for item in found if item["step"] == asked[1]), None)
        return await self._runs.restored(item)  # for a person who may see values

    async def _answer(self, question: OpenQuestion) -> None:
        run, step = question["run_id"], question["step"]
        if self._yes:
            answer: _ApprovalAnswer | None = _ApprovalAnswer(note="--yes")
        else:
            task = asyncio.create_task(self._ask(question))
            self._asking = ((run, step), task)
            await asyncio.wait((task,))
            self._asking = None
            if task.cancelled():
                self._call.screen.note("answered elsewhere", "dim")
                return
            answer = task.result()
        if answer is None:
            self._leave()
            return
        try:
            await self._runs.approve(
                run,
                step,
                deny=answer.is_denied,
                arguments=answer.arguments,
                note=answer.note,
                by=self._call.person,
            )
        except ArtelierError as error:
            self._call.screen.note(f"not answered: {redact_output(str(error))}", "red")
            if isinstance(error, InvalidArguments):
                self._open.put_nowait((run, step))  # it is still open

    def _leave(self) -> None:
        """Nobody answers now: the run is left waiting, for any process to go on with later."""
        core = find_driver(self._kernel.services, self._runs.id, self._run_id)
        if core is not None:
            core.on_wait = "suspend"
            core.announce()

    async def _ask(self, question: OpenQuestion) -> _ApprovalAnswer | None:
        """The person's answer; None for later."""
        screen, details = self._call.screen, dict(question.get("details") or {})
        screen.note()
        screen.note(f"? {question['question']}", "bold yellow")
        for name, value in details.items():
            if name == "plan" and isinstance(value, dict):
                for line in plan_lines(cast("dict[str, Any]", value)):
                    screen.note(f"  {line}")
                continue
            text = value if isinstance(value, str) else display.json_text(value)
            screen.note(f"  {name}: {text[:4000]}")
        # An answer in words is a yes with a note, so it has a letter: a slip of the finger is no yes.
        choices = "y = yes, n = no, a = answer in words, " + ("e = edit, " if details else "")
        while True:
            typed = await read_line(f"  {choices}l = later > ")
            word = (typed or "l").strip()
            if word in ("l", "later"):
                return None
            if word in ("y", "yes"):
                return _ApprovalAnswer()
            if word in ("n", "no"):
                return _ApprovalAnswer(is_denied=True, note=(await read_line("  why? > ") or "").strip())
            if word == "a":
                return _ApprovalAnswer(note=(await read_line("  answer > ") or "").strip())
            if word == "e" and details:
                edited = await self._edit_arguments(details.get("arguments", details))
                if edited is not None:
                    return _ApprovalAnswer(arguments=edited)

    async def _edit_arguments(self, now: object) -> object:
        self._call.screen.note(f"  now: {msgspec.json.encode(now).decode()}")
        typed = await read_line("  new arguments as JSON > ")
        try:
            return msgspec.json.decode((typed or "").strip())
        except msgspec.DecodeError as error:
            self._call.screen.note(f"  not JSON: {error}", "red")
            return None


async def read_line(prompt: str) -> str | None:
    """A line from the terminal without blocking the loop; None at its end (Ctrl-D)."""
    print(prompt, end="", file=sys.stderr, flush=True)
    loop, descriptor = asyncio.get_running_loop(), sys.stdin.fileno()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    except asyncio.CancelledError:
        print(file=sys.stderr)
        raise
    finally:
        loop.remove_reader(descriptor)
    # A terminal hands over one line at a time.
    typed = os.read(descriptor, LINE_BYTES_MAX)
    if not typed:
        print(file=sys.stderr)
        return None
    return typed.decode(errors="replace")
