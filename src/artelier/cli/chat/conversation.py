"""A conversation on one branch of a chat: replies, what waits there, and what the person sees."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

import msgspec

from artelier.cli import exit_codes
from artelier.cli.approvals import read_line
from artelier.cli.call import CliCall
from artelier.cli.display import Screen, line, safe
from artelier.errors import InvalidRequest, NotFound
from artelier.money import format_usd

if TYPE_CHECKING:
    from artelier.app import Kernel, TenantKernel
    from artelier.chat import Session, TurnResult

# One turn on the screen: the reply as it is written, and under it what the operations did.


class StateChange(TypedDict):
    """The change of an artifact by a turn."""

    tag: str
    added: NotRequired[int]
    """Entries that a feed has got."""
    version: NotRequired[int]
    """The new version of another artifact."""


class TurnFacts(TypedDict):
    """The facts that are told of a turn beside its result."""

    planned: tuple[str, ...]
    """Ids of operations."""
    changes: list[StateChange]
    codes: dict[str, str]
    """The reasons for which operations ended as they did, by id."""
    parts: list[dict[str, str]]
    """Parts of the reply on other channels than `text`."""


_WORDS = (
    ("done", "ran"),
    ("skipped", "skipped"),
    ("error", "failed"),
    ("aborted", "aborted"),
    ("running", "unfinished"),
)


class ReplyScreen:
    """Shows the reply of one turn, on a terminal piece by piece, elsewhere once it stands."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._streams = sys.stdout.isatty() and not screen.as_json
        self._text = ""
        """The text that has come."""
        self._came = 0
        """Characters of it as they were written, with placeholders."""
        self._shown = 0
        """Characters of it on the screen."""

    def take(self, event: Any, seen: dict[str, Any]) -> None:
        """A `RunEvent` of the turn, and its data as it may be seen here."""
        if event.type == "main_llm.delta":
            if event.data["offset"] < self._came:  # asked again: it begins anew
                self._end_line()
                self._text, self._shown, self._came = "", 0, 0
            self._came += len(event.data["text"])
            self._text += seen["text"]
            self._show(len(self._text) - self._text.endswith("\r"))
        elif event.type == "approval.requested":
            self._end_line()
            self._screen.note(f"? {seen.get('question', 'an answer is wanted')}", "yellow")

    def _show(self, upto: int) -> None:
        if self._streams and upto > self._shown:
            sys.stdout.write(safe(self._text[self._shown : upto]))
            sys.stdout.flush()
            self._shown = upto

    def _end_line(self) -> None:
        if self._shown:
            print(flush=True)

    def end(self, text: str) -> None:
        """`text` is the reply as people see it: after it was written, operations may have changed it."""
        self._show(len(self._text))
        self._end_line()
        if not text or (self._shown and text.endswith(self._text)):
            return
        if self._shown and text.startswith(self._text):
            text = text[len(self._text) :].strip("\n")
        elif self._shown:
            self._screen.note("the reply was changed; it now reads:", "dim")
        self._screen.line(text)


def print_turn(screen: Screen, session: Session, result: TurnResult, facts: TurnFacts) -> None:
    """A turn that has ended, as a JSON object, or as a quiet line below the reply."""
    if screen.as_json:
        screen.json(describe_turn(session, result, facts), indent=-1)
        return
    for part in facts["parts"]:
        screen.line(f"[{part['channel']}] {part['text']}", "dim")
    if result.failed is not None:
        failed = result.failed
        where = f"{failed['failed_type']}, {failed['operation']}".rstrip(", ")
        screen.note(f"the turn failed ({where}): {line(str(failed['message']), chars_max=400)}", "red")
        screen.note("/regenerate tries it again, /explain says why", "dim")
    elif "error" in result.operations.values():
        screen.note("/explain says why an operation failed", "dim")
    elif result.status == "cancelled":
        screen.note("cancelled", "yellow")
    screen.note(summary(result, facts), "dim")


def summary(result: TurnResult, facts: TurnFacts) -> str:
    """`turn 2: ran lore, dice; skipped guard; world_state v2, combat_log +1; 0.01 USD`."""
    words: list[str] = []
    for status, word in _WORDS:
        names = [id_ for id_ in facts["planned"] if result.operations.get(id_) == status]
        if names:
            words.append(f"{word} {', '.join(_with_codes(names, facts['codes']))}")
    if facts["changes"]:
        words.append(", ".join(map(_change, facts["changes"])))
    if result.is_cut:
        words.append("cut at its limit of tokens, /continue goes on")
    words.append(f"{format_usd(result.cost_microusd)} USD")
    variant = f", variant {result.variant}" if result.variant > 1 else ""
    return line(f"turn {result.turn}{variant}: {'; '.join(words)}", chars_max=600)


def _with_codes(names: Iterable[str], codes: dict[str, str]) -> list[str]:
    return [f"{name} ({codes[name]})" if name in codes else name for name in names]


def _change(change: StateChange) -> str:
    if "added" in change:
        return f"{change['tag']} +{change['added']}"
    return f"{change['tag']} v{change.get('version')}"


class EndedTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that has ended, or waits, as `--json` shows it."""

    chat_id: str
    branch: str
    turn: int
    variant: int
    """From 1; 0 if the run made none."""
    run_id: str
    status: str
    """Of the run."""
    finish_reason: str
    speaker: str
    text: str
    parts: list[dict[str, str]]
    """Parts of the reply on other channels than `text`."""
    operations: dict[str, str]
    """Status by operation."""
    changes: list[StateChange]
    failed: dict[str, Any] | None
    is_cut: bool
    cost_microusd: int
    """Of all model calls of the run."""


def describe_turn(session: Session, result: TurnResult, facts: TurnFacts) -> EndedTurn:
    """Return a turn as `--json` shows it."""
    return EndedTurn(
        chat_id=session.chat_id,
        branch=session.branch_name,
        turn=result.turn,
        variant=result.variant,
        run_id=result.run_id,
        status=result.status,
        finish_reason=result.finish_reason,
        speaker=result.speaker,
        text=result.text,
        parts=facts["parts"],
        operations=dict(result.operations),
        changes=facts["changes"],
        failed=dict(result.failed) if result.failed is not None else None,
        is_cut=result.is_cut,
        cost_microusd=result.cost_microusd,
    )


async def facts_of(session: Session, result: TurnResult) -> TurnFacts:
    """Return what else there is to tell of a turn.

    Artifacts that people may not see are not in it; neither are their names.
    """
    shown = await session.show(result.run_id)
    visible = await session.arts()
    changes: dict[str, StateChange] = {}
    for report in shown["reports"]:
        tag = report.get("tag", "")
        if report["status"] != "applied" or not report.get("version") or tag not in visible:
            continue
        if visible[tag]["append"]:
            before = changes.get(tag)
            changes[tag] = {"tag": tag, "added": (before.get("added", 0) if before else 0) + 1}
        else:
            changes[tag] = {"tag": tag, "version": report["version"]}
    codes = {one["operation_id"]: code for one in shown["operations"] if (code := one.get("code"))}
    return {
        "planned": tuple(dict.fromkeys(one["operation_id"] for one in shown["plan"])),
        "changes": list(changes.values()),
        "codes": codes,
        "parts": await _beside(session, result),
    }


async def _beside(session: Session, result: TurnResult) -> list[dict[str, str]]:
    """Parts of the reply on other channels than `text`."""
    if not result.variant:
        return []
    turn = await session.turn(result.turn)
    return [
        {"channel": part["channel"], "text": part["text"]}
        for variant in turn.variants
        if variant.number == result.variant
        for part in variant.parts
        if part["channel"] != "text"
    ]


# The input of a chat: the lines of a terminal, a pipe or a file, or messages given beforehand.

PIECE_BYTES = 65_536
LINE_BYTES_MAX = 4 * 1024 * 1024
"""Of one message in a pipe: as much as the longest that a chat takes."""


class Lines:
    """One line after another; `is_asked` tells whether a person types them now."""

    def __init__(self, messages: Sequence[str] = ()) -> None:
        """With `messages`, those and nothing else."""
        self._given: deque[str] | None = deque(messages) if messages else None
        self.is_asked = self._given is None and sys.stdin.isatty() and sys.stderr.isatty()
        self._pipe = None if self._given is not None or self.is_asked else _Pipe()

    async def next(self, prompt: str) -> str | None:
        """A line without its end; None after the last. Errors: `InvalidRequest` for an endless one."""
        if self._given is not None:
            return self._given.popleft() if self._given else None
        if self._pipe is None:
            text = await read_line(prompt)
            return None if text is None else text.rstrip("\r\n")
        return await self._pipe.next()


class _Pipe:
    """Standard input that is no terminal.

    A thread of its own reads, for neither files nor all pipes can be waited for in the event loop; it holds
    no lock of the interpreter, so that a process may end while it waits.
    """

    def __init__(self) -> None:
        try:
            self._descriptor: int | None = sys.stdin.fileno()
        except (io.UnsupportedOperation, ValueError):  # not a file at all
            self._descriptor = None
        self._left = b""
        self._is_over = False

    async def next(self) -> str | None:
        if self._descriptor is None:
            text = sys.stdin.readline()
            return text.rstrip("\r\n") if text else None
        while b"\n" not in self._left and not self._is_over:
            piece = await _read(self._descriptor)
            self._is_over = not piece
            self._left += piece
            if len(self._left) > LINE_BYTES_MAX and b"\n" not in self._left:
                raise InvalidRequest(
                    "a line of the input is too long", expected=f"at most {LINE_BYTES_MAX:,} bytes"
                )
        if not self._left:
            return None
        first, _, self._left = self._left.partition(b"\n")
        return first.decode(errors="replace").rstrip("\r")


async def _read(descriptor: int) -> bytes:
    """Some bytes; none at the end."""
    loop = asyncio.get_running_loop()
    read: asyncio.Future[bytes] = loop.create_future()

    def work() -> None:
        try:
            piece = os.read(descriptor, PIECE_BYTES)
        except OSError:
            piece = b""
        try:
            loop.call_soon_threadsafe(_set, read, piece)
        except RuntimeError:  # the loop has ended: nobody wants it any more
            pass

    threading.Thread(target=work, daemon=True, name="stdin").start()
    return await read


def _set(read: asyncio.Future[bytes], piece: bytes) -> None:
    if not read.done():
        read.set_result(piece)


_LEFT_BEHIND = ("pending", "running")
"""How a run stands that a process began, and did not end, while nobody asked it to wait."""


class Interrupts:
    """Ctrl-C in a conversation: the first ends the reply that is being written, the second the conversation.

    `with interrupts.during(cancel)`: the first one within calls `cancel`. All others end the task.
    """

    def __init__(self) -> None:
        self._cancel: Callable[[], Awaitable[None]] | None = None
        self._at_work: asyncio.Task[None] | None = None

    def install(self) -> None:
        """Install the handler for the current task, until the event loop ends."""
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None

        def came() -> None:
            cancel, self._cancel = self._cancel, None
            if cancel is None:
                task.cancel()
            else:
                self._at_work = asyncio.ensure_future(cancel())
                # If nobody waits for it any more, its error is nobody's.
                self._at_work.add_done_callback(lambda done: done.cancelled() or done.exception())

        loop.add_signal_handler(signal.SIGINT, came)
        loop.add_signal_handler(signal.SIGTERM, task.cancel)

    @contextmanager
    def during(self, cancel: Callable[[], Awaitable[None]]) -> Generator[None]:
        self._cancel = cancel
        try:
            yield
        finally:
            self._cancel = None

    async def settle(self) -> None:
        """After a cancel that was begun: what it came to. Errors: those of `cancel`; `CancelledError` if the
        conversation was to end meanwhile, and what was awaited then ended well."""
        at_work, self._at_work = self._at_work, None
        if at_work is not None:
            await at_work
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError


class Talk:
    """One branch of a chat and the person, or the script, that talks on it."""

    def __init__(self, call: CliCall, kernel: Kernel, session: Session, lines: Lines) -> None:
        self.call = call
        self.kernel = kernel
        self.session = session
        self.screen = call.screen
        self.lines = lines
        self.interrupts = Interrupts()
        self.attached: list[bytes] = []
        """Images, sounds, PDFs and texts that the next message shows."""
        self.is_over = False
        """Set by `/quit`."""

    @property
    def desk(self) -> TenantKernel:
        return self.kernel.for_tenant(self.call.tenant)

    @property
    def is_asked(self) -> bool:
        """True if a person types: mistakes are told, and the conversation goes on."""
        return self.lines.is_asked

    def way_back(self) -> str:
        """Return the command that goes on with the conversation."""
        session = self.session
        branch = () if session.branch_name == "main" else ("--branch", session.branch_name)
        return self.call.command_line("chat", session.chat_id, *branch)

    async def reply(self, trigger: str, text: str = "", *, turn: int | None = None, speaker: str = "") -> int:
        """Have a turn, and show it; the exit code that its end stands for."""
        from artelier.chat import RunEvent

        self.call.resumable = self.way_back()
        session, reply = self.session, ReplyScreen(self.screen)
        result: TurnResult | None = None
        # Questions of a run are answered by `artelier approve`: it is left waiting.
        attached = self.attached if trigger == "generate" else []
        items = session.stream(
            text, trigger=trigger, turn=turn, speaker=speaker, on_wait="suspend", attachments=attached
        )
        with self.interrupts.during(self._cancel):
            async with aclosing(items) as stream:
                async for item in stream:
                    if isinstance(item, RunEvent):
                        reply.take(item, await self.restore_values(dict(item.data)))
                    else:
                        result = item
        if attached:
            self.attached = []
        await self.interrupts.settle()
        assert result is not None, "a stream ends with the result"
        text, facts = await self.restore_values([result.text, await facts_of(session, result)])
        result = replace(result, text=text)
        if not self.call.as_json:
            if result.speaker and (await session.settings()).group:
                self.screen.note(f"{await self.restore_values(result.speaker)}:", "bold")
            reply.end(text)
        print_turn(self.screen, session, result, facts)
        await self._advise(result)
        return exit_codes.of_status(result.status)

    async def _cancel(self) -> None:
        self.screen.note("cancelling the reply; Ctrl-C once more leaves", "yellow")
        await self.session.cancel()

    async def _advise(self, result: TurnResult) -> None:
        """Print how a run that did not end can go on."""
        if result.status not in ("completed", "failed", "cancelled") and not self.call.as_json:
            await self.advise(result.run_id)

    async def tell(self, run_id: str) -> None:
        """Print what a waiting run waits for, and how it goes on; nothing is done with it."""
        if not self.call.as_json:
            await self.advise(run_id)
            return
        from artelier.chat.turn.turn_runner import recorded_job, result_of, tools_missing

        desk = self.desk
        job = await recorded_job(desk, run_id)
        assert job is not None, "a run that waits has begun"
        result = await result_of(desk.services, desk.id, run_id, job)
        turn = describe_turn(self.session, result, await facts_of(self.session, result))
        run = await desk.show(run_id)
        waits = {"approvals": run["approvals"], "tools_missing": await tools_missing(desk, run_id)}
        self.data(await self.restore_values({**msgspec.structs.asdict(turn), **waits}))

    async def advise(self, run_id: str) -> None:
        """Print the state of a run, its question, and the next steps."""
        from artelier.chat.turn.turn_runner import tools_missing
        from artelier.cli.next_steps import next_steps, question_lines, standing

        screen, run = self.screen, await self.restore_values(await self.desk.show(run_id))
        screen.note(f"{run_id} is {standing(run)}", "bold yellow")
        for asked in run["approvals"]:
            question, *about = question_lines(asked)
            screen.note(f"? {question}", "yellow")
            for one in about:
                screen.note(one)
        missing = await tools_missing(self.session.desk, run_id)
        if not missing or run["approvals"]:
            for step in await next_steps(self.call, self.kernel, run):
                screen.note(step)
        if missing:
            screen.note(
                f"its tools are not here ({', '.join(missing)[:300]}): go on with the chat in the program"
                " that has them, or here with /cancel"
            )
        elif self.is_asked:
            screen.note("then here: /resume, or /cancel")

    async def restore_values(self, value: Any) -> Any:
        """JSON data as whoever sits here may see it: with values, if the tenant's grants allow that.

        The model and the chat have placeholders.
        """
        return await self.desk.restored(value)

    def data(self, value: object) -> bool:
        """Print an answer as JSON if that is wanted; whether it was."""
        if self.call.as_json:
            self.screen.json(value, indent=-1)
        return self.call.as_json

    async def stand(self) -> None:
        """Say where the conversation stands now."""
        session = self.session
        turns = await session.turns(limit=1)
        number = turns[-1].number if turns else 0
        at: dict[str, Any] = {"branch": session.branch_name, "turn": number}
        if not self.data(at):
            self.screen.note(f"branch {session.branch_name}, turn {number}", "dim")


async def is_left_behind(desk: Any, run_id: str) -> bool:
    """Return True if a run that has not ended can go on here, without anybody being asked."""
    from artelier.chat.turn.turn_runner import tools_missing

    try:
        status = (await desk.show(run_id))["status"]
    except NotFound:  # it was asked for, and never began
        return True
    return status in _LEFT_BEHIND and not await tools_missing(desk, run_id)
