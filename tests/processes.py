"""Processes that tests start: none outlives its test, whatever goes wrong."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import runpy
import subprocess
import sys
import threading
import time
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import forkserver, reduction
from pathlib import Path
from typing import Any

PATIENCE_S = 60.0
"""How long a test waits for what takes moments; only a process that hangs takes it all."""

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.warm", "tests.server.house"])
_ROOT = Path(__file__).parents[1]


def fork(work: Callable[..., None], *given: object) -> int | None:
    """Run a module's function in a process of its own that has imported Artelier; -9 if it is killed there.

    A test of many deaths would spend its time on imports. None if the process hangs, and is killed then.
    """
    process = _FORKS.Process(target=work, args=given)
    process.start()
    try:
        process.join(PATIENCE_S)
        return process.exitcode
    finally:
        process.kill()


@contextmanager
def killed_at_last(process: subprocess.Popen[Any]) -> Iterator[None]:
    """Kill a process that still runs when its test has left the block: waiting for it would have no end."""
    try:
        yield
    finally:
        if process.poll() is None:
            process.kill()


def children() -> set[int]:
    """Return the processes that this one started.

    The kernel lists them by thread, and hands those of a thread that ends to another one: a list counts if
    no thread has ended meanwhile.
    """
    tasks = Path("/proc/self/task")
    while True:
        before = set(tasks.iterdir())
        with suppress(FileNotFoundError, ProcessLookupError):
            found = {int(pid) for task in before for pid in (task / "children").read_text().split()}
            if before <= set(tasks.iterdir()):
                return found


class WarmPython(subprocess.Popen[Any]):
    """`subprocess.Popen` of this interpreter, forked from one that has imported Artelier.

    Imports take a process of a server two seconds, which are most of what a test with real processes would
    spend. It is a process of its own in every other respect; where its start is the point, a test starts it
    the plain way. It takes `-W`, `-m`, `-c` and scripts.
    """

    def _execute_child(self, args: Sequence[str], *given: Any) -> None:
        _, preexec_fn, _, pass_fds, cwd, env, _, _, is_shell = given[:9]
        pipes = given[9:15]
        start_new_session = given[-2]
        assert args[0] == sys.executable and not is_shell and not pass_fds
        ends = (pipes[0], pipes[3], pipes[5])
        program = _Program(
            words=[str(word) for word in args[1:]],
            folder=os.path.abspath(cwd or os.getcwd()),
            environ=dict(os.environ if env is None else env),
            streams=[_Handed(end if end >= 0 else number) for number, end in enumerate(ends)],
            has_session=start_new_session,
            before=preexec_fn,
        )
        with chdir(_ROOT):
            forkserver.ensure_running()
        self._process = _FORKS.Process(target=_run, args=(program,))
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid
        self._child_created = True
        self._close_pipe_fds(*pipes)  # pyright: ignore[reportAttributeAccessIssue]

    def _internal_poll(self, _deadstate: int | None = None) -> int | None:
        if self.returncode is None:
            self.returncode = self._process.exitcode
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        self._process.join(timeout)
        code = self._internal_poll()
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code


def run_warm(
    words: Sequence[str],
    *,
    input: Any = None,
    check: bool = False,
    capture_output: bool = False,
    timeout: float = PATIENCE_S,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """`subprocess.run` with a `WarmPython`."""
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if input is not None:
        options["stdin"] = subprocess.PIPE
    with WarmPython(words, **options) as process, killed_at_last(process):
        out, err = process.communicate(input, timeout=timeout)
    assert process.returncode is not None
    done = subprocess.CompletedProcess(words, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


class _Handed:
    """A descriptor that goes along with the process that it is pickled for."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __reduce__(self) -> tuple[Any, ...]:
        return _take, (reduction.DupFd(self._descriptor),)


def _take(handed: Any) -> int:
    return handed.detach()


@dataclass(frozen=True)
class _Program:
    words: list[str]
    folder: str
    environ: Mapping[str, str]
    streams: list[Any]
    has_session: bool
    before: Callable[[], None] | None


def _run(program: _Program) -> None:
    """Become what the interpreter would be, run what it would run, and end as it would."""
    for number, descriptor in enumerate(program.streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(program.folder)
    os.environ.clear()
    os.environ.update(program.environ)
    time.tzset()
    if program.has_session:
        os.setsid()
    if program.before is not None:
        program.before()
    encoding = sys.stdout.encoding
    sys.stdin = open(0, encoding=encoding, closefd=False)
    sys.stdout = open(1, "w", encoding=encoding, closefd=False)
    sys.stderr = open(2, "w", encoding=encoding, errors="backslashreplace", buffering=1, closefd=False)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    try:
        _interpret(program.words, program.folder)
    finally:
        threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue] - what `atexit` itself waits for
        atexit._run_exitfuncs()  # a process of `multiprocessing` leaves them out


def _interpret(words: list[str], folder: str) -> None:
    while words[0] == "-W":
        warnings.simplefilter(words[1])  # pyright: ignore[reportArgumentType]
        words = words[2:]
    if words[0] == "-m":
        sys.argv = words[1:]
        sys.path.insert(0, folder)
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        sys.path.insert(0, "")
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(words[1], "<string>", "exec"), main.__dict__)
    else:
        sys.argv = words
        sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
        runpy.run_path(words[0], run_name="__main__")
