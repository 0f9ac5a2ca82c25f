"""A helper process for work that can't be trusted to end: queries and patterns that a model wrote.

Inside one process neither a regular expression nor a database function can be stopped once it runs,
and both can take all memory. A process can be given a memory limit and can be killed. It gets no
environment, no secrets and only the files that are handed to it; `confinement.py` has the walls around it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
import weakref
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Any, Generic, TypeVar

import msgspec

from artelier.confinement import Needs, module_arguments, plan_of
from artelier.errors import Refused, ToolFailed

A = TypeVar("A")
"""The record that a worker module answers with."""

ANSWER_BYTES_MAX = 16 * 1024 * 1024
IDLE_MAX = 2
"""Processes of a pool that are kept."""
START_S = 30.0
"""For the start of a pooled process, which is not the time of the first question."""
WALL_FACTOR = 3
"""The factor by which an answer may take longer than its CPU time: a busy machine alone is no timeout."""


class ChildStopped(Exception):
    """The process is gone: `timed_out` if it was killed for its time, else it died by itself."""

    def __init__(self, *, timed_out: bool) -> None:
        super().__init__("timed out" if timed_out else "died")
        self.timed_out = timed_out


class HelperFailure(msgspec.Struct, frozen=True, kw_only=True):
    """The reason for which a helper process has no answer to a question."""

    failed: str
    """`timeout` and `too_large` of any process; other codes are those of its worker module."""
    message: str = ""
    """In words."""
    hint: str | None = None
    step: int | None = None
    """Of a transform: the step that failed, counted from 0."""
    kind: str | None = None
    """Of a search for personal data: the detector whose pattern took too long."""


class HelperValue(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a process that computes a JSON value."""

    value: Any


class Child:
    """One process of a worker module, asked one thing at a time in lines of JSON."""

    def __init__(
        self,
        *,
        descriptors: Iterable[int] = (),
        module: str = "artelier.tools.worker.__main__",
        needs: Needs | None = None,
    ) -> None:
        """Shapes: `descriptors` are open files that the process may read; the caller keeps its own. `needs`
        says what the module imports late, and reads: behind the walls it can do neither.
        Errors: `ToolFailed` if no process can be started here, or not as confined as is required.
        """
        if os.name != "posix":
            raise ToolFailed("this tool needs a POSIX system")
        descriptors = tuple(descriptors)
        try:
            plan = plan_of(descriptors=descriptors, needs=needs)
        except Refused as error:
            raise ToolFailed(error.message, got=error.got, hint=error.hint) from None
        try:
            self._process = subprocess.Popen(
                [sys.executable or "python3", "-P", "-s", "-X", "utf8", *module_arguments(plan, module)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=bare_environment(),
                cwd="/",
                pass_fds=descriptors,
            )
        except OSError as error:
            raise ToolFailed(f"the helper process does not start: {os.strerror(error.errno or 0)}") from None
        # Also when nobody closes it: at the latest when the program ends.
        self._finish = weakref.finalize(self, _end, self._process)
        self._buffer = b""

    @property
    def alive(self) -> bool:
        return self._finish.alive and self._process.poll() is None

    def ask(self, message: Mapping[str, object], *, answer: type[A], timeout_s: float) -> A | HelperFailure:
        """The answer to one message, which the worker module gives as an `answer`.

        Errors: `ChildStopped`; the process is then gone for good.
        """
        deadline = time.monotonic() + timeout_s
        line = json.dumps(msgspec.to_builtins({**message, "timeout_s": timeout_s})).encode() + b"\n"
        try:
            stdin = self._process.stdin
            assert stdin is not None
            stdin.write(line)
            stdin.flush()
            told = json.loads(self._line(deadline))
            return msgspec.convert(told, HelperFailure if "failed" in told else answer)
        except (OSError, ValueError, msgspec.ValidationError):
            self.close()
            raise ChildStopped(timed_out=False) from None

    def _line(self, deadline: float) -> bytes:
        stdout = self._process.stdout
        assert stdout is not None
        descriptor = stdout.fileno()
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                self.close()
                raise ChildStopped(timed_out=True)
            piece = os.read(descriptor, 1 << 20)
            if not piece or len(self._buffer) > ANSWER_BYTES_MAX:
                self.close()
                raise ChildStopped(timed_out=False)
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def kill(self) -> None:
        """End the process, from any thread: who waits for its answer gets `ChildStopped`, and cleans up."""
        with contextlib.suppress(OSError):
            self._process.kill()

    def close(self) -> None:
        """End the process; does nothing the second time."""
        self._finish()


class ChildPool(Generic[A]):
    """Processes of one worker module that are kept for the next question, a few of them."""

    def __init__(
        self, module: str, *, first: Mapping[str, object], answer: type[A], needs: Needs | None = None
    ) -> None:
        """`first` is a question that any process answers at once: its start ends with the `answer`. `needs`:
        as of `Child`."""
        self._module = module
        self.answer = answer
        self._needs = needs
        self._first = first
        self._idle: list[Child] = []
        self._lock = Lock()

    @property
    def idle(self) -> int:
        return len(self._idle)

    def take_idle(self) -> Child | None:
        """Return an idle process; None if there is none."""
        with self._lock:
            while self._idle:
                child = self._idle.pop()
                if child.alive:
                    return child
                child.close()
        return None

    def wait_started(self, child: Child) -> None:
        """Wait until a new process answers. Errors: `ChildStopped`."""
        child.ask(self._first, answer=self.answer, timeout_s=START_S)

    def new(self) -> Child:
        """Return a process that may not answer yet. Errors: `ToolFailed`."""
        return Child(module=self._module, needs=self._needs)

    def keep(self, child: Child) -> None:
        with self._lock:
            if len(self._idle) < IDLE_MAX:
                self._idle.append(child)
                return
        child.close()


class Question(Generic[A]):
    """One question to a process of a pool, which whoever asks may give up at any moment."""

    def __init__(self, pool: ChildPool[A]) -> None:
        self._pool = pool
        self._lock = Lock()
        self._child: Child | None = None
        self._is_stopped = False

    def stop(self) -> None:
        """Kill the process that is asked, which frees its thread; one that waits for a thread asks none."""
        with self._lock:
            self._is_stopped = True
            if self._child is not None:
                self._child.kill()

    def ask(self, message: Mapping[str, object], *, time_s: float) -> A | HelperFailure:
        """Return the answer; of a process that was killed, `timeout` or `too_large`.

        Units: `time_s` is of the processor; the worker keeps to it, this side to `WALL_FACTOR` times that.
        Errors: `ToolFailed` or `ChildStopped` if no process can be started, or nobody waits any more.
        """
        child = self._begin()
        try:
            asked = {**message, "time_s": time_s}
            answer = child.ask(asked, answer=self._pool.answer, timeout_s=time_s * WALL_FACTOR)
        except ChildStopped as stopped:
            code = "timeout" if stopped.timed_out else "too_large"
            text = "it took too long" if stopped.timed_out else "it needs too much memory"
            return HelperFailure(failed=code, message=text)
        finally:
            with self._lock:  # from here on it is no longer this question's to kill
                self._child = None
        if isinstance(answer, HelperFailure) and answer.failed in ("timeout", "too_large"):
            child.close()
        else:
            self._pool.keep(child)
        return answer

    def _begin(self) -> Child:
        if self._is_stopped:
            raise ChildStopped(timed_out=False)
        idle = self._pool.take_idle()
        child = idle or self._pool.new()
        with self._lock:
            self._child = child
            if self._is_stopped:
                child.kill()
        if idle is None:
            self._pool.wait_started(child)
        return child


def bare_environment() -> dict[str, str]:
    """Return what the interpreter needs to find its libraries, and nothing of what this process knows."""
    paths = [path for path in sys.path if os.path.isabs(path)]
    return {"PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1", "HOME": "/nonexistent"}


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):
        process.kill()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    process.wait()
