"""Second walls: what the kernel denies a helper process, in case the first wall inside it is broken.

The first wall is the interpreter, DuckDB or the pattern engine that runs untrusted code. Behind it, a helper
starts by `exec`, with its pipes and the files handed to it, and nothing else of the server; then it puts up:

    limits       resource limits: no core dump, no file may grow, few descriptors, bounded memory
    namespaces   a user, network and IPC namespace of its own: no interface, no process of the host to trace
    privileges   no capability, and none to be gained by any program (PR_SET_NO_NEW_PRIVS)
    landlock     no file but those handed over; no TCP, no signal, no abstract socket to the outside
    seccomp      an allow-list of system calls: no socket, no process, no write to a file, no signal to others

A wall that this kernel does not have is left out, and `artelier doctor` says why. `ARTELIER_CONFINEMENT`
may be `required`, which refuses to start a helper without all of them, or `off`. Only the standard library is
imported, since this file is also run alone, as a script. Numbers are from linux/landlock.h (ABI 1 to 7),
linux/seccomp.h and asm/unistd.h; a machine other than x86_64 and aarch64 has no seccomp wall.
"""

from __future__ import annotations

import ctypes
import errno
import importlib
import json
import os
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple, cast

WALLS = ("limits", "namespaces", "privileges", "landlock", "seccomp")
"""In the order in which they are put up: each takes away what those behind it no longer need."""

MEMORY_BYTES_MAX = 4 * 1024 * 1024 * 1024
"""Address space of a helper, unless its own module sets less."""
DESCRIPTORS_SPARE = 64
REFUSED = 126
"""Exit code of a helper that lacks a wall which is required."""


class Needs(NamedTuple):
    """The needs of a worker module behind the walls."""

    preload: tuple[str, ...] = ()
    """Modules that it imports before the walls go up; behind them nothing can be imported any more."""
    files: tuple[str, ...] = ()
    """Paths that it may read besides the descriptors that are handed to it."""
    scratch_bytes: int = 0
    """The largest size of a file in memory, in bytes; the worker can write no other file."""
    walls: tuple[str, ...] = WALLS
    """Fewer for a worker that runs no code of others, and loads modules or starts helpers while it works."""


class ConfinementPlan(NamedTuple):
    """The rights of a helper process."""

    walls: tuple[str, ...] = WALLS
    descriptors: tuple[int, ...] = ()
    """Open files that it may also open again by `/dev/fd`, to read."""
    program: str = ""
    """The one file that it may execute; with it, shared libraries of the system are readable."""
    is_required: bool = False
    """To refuse to go on if a wall does not stand."""
    needs: Needs = Needs()

    def encode(self) -> str:
        return json.dumps(self)


def decode_plan(text: str) -> ConfinementPlan:
    walls, descriptors, program, is_required, (preload, files, scratch_bytes, whole) = json.loads(text)
    needs = Needs(tuple(preload), tuple(files), scratch_bytes, tuple(whole))
    return ConfinementPlan(tuple(walls), tuple(descriptors), program, is_required, needs)


def confine(plan: ConfinementPlan) -> dict[str, str]:
    """Put up the walls of the plan around this process, for good; why each missing one is missing.

    Call it while the process has one thread: what others do is not confined.
    """
    missing: dict[str, str] = {}
    if sys.platform != "linux":
        return dict.fromkeys(plan.walls, "this is not Linux")
    if len(os.listdir("/proc/self/task")) != 1:
        return dict.fromkeys(plan.walls, "the process has more than one thread")
    # Prepared before the first wall, since it reads files.
    readable = tuple(_readable(plan)) if "landlock" in plan.walls else ()
    for wall in WALLS:
        if wall in plan.walls:
            try:
                _BUILDERS[wall](plan, readable)
            except OSError as error:
                missing[wall] = error.strerror or str(error)
    for descriptor, _ in readable:
        os.close(descriptor)
    return missing


# ---------------------------------------------------------------------------- system calls

_libc: Any = None if sys.platform == "win32" else ctypes.CDLL(None, use_errno=True)

_X86_64, _AARCH64 = "x86_64", "aarch64"
_MACHINE = os.uname().machine if hasattr(os, "uname") else ""
_CAPSET = {_X86_64: 126, _AARCH64: 91}
_SECCOMP = {_X86_64: 317, _AARCH64: 277}
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446

_PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 4, 24, 38, 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4


def _call(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {errno.errorcode.get(code, code)} ({os.strerror(code)})")
    return result


def _syscall(what: str, number: int, *arguments: Any) -> int:
    # Variadic arguments are passed as long: a 32-bit int would leave half of the register as it was.
    passed = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    return _call(_libc.syscall(ctypes.c_long(number), *passed), what)


def _prctl(what: str, option: int, *arguments: int) -> int:
    passed = [ctypes.c_ulong(one) for one in (*arguments, 0, 0, 0, 0)[:4]]
    return _call(_libc.prctl(ctypes.c_int(option), *passed), what)


def _gain_nothing() -> None:
    _prctl("no new privileges", _PR_SET_NO_NEW_PRIVS, 1)


def hide_memory() -> bool:
    """Keep other processes of this user from reading this one's memory, environment and descriptors.

    For processes that hold keys. No core dump is written either. Whether it could be done.
    """
    if sys.platform != "linux":
        return False
    try:
        _prctl("dumpable", _PR_SET_DUMPABLE, 0)
    except OSError:
        return False
    return True


# ---------------------------------------------------------------------------- limits


def _limit(plan: ConfinementPlan, readable: object) -> None:
    import resource as r

    descriptors = max((2, *plan.descriptors)) + DESCRIPTORS_SPARE
    bounds = [
        (r.RLIMIT_CORE, 0),
        (r.RLIMIT_FSIZE, plan.needs.scratch_bytes),
        (r.RLIMIT_MSGQUEUE, 0),
        (r.RLIMIT_MEMLOCK, 0),
        (r.RLIMIT_NOFILE, descriptors),
        (r.RLIMIT_AS, MEMORY_BYTES_MAX),
    ]
    for limit, bound in bounds:
        _, hard = r.getrlimit(limit)
        bound = bound if hard == r.RLIM_INFINITY else min(bound, hard)
        r.setrlimit(limit, (bound, bound))


# ---------------------------------------------------------------------------- namespaces

_CLONE_NEWUSER, _CLONE_NEWNET, _CLONE_NEWIPC = 0x10000000, 0x40000000, 0x08000000


def _leave_namespaces(plan: ConfinementPlan, readable: object) -> None:
    flags = _CLONE_NEWUSER | _CLONE_NEWNET | _CLONE_NEWIPC
    _call(_libc.unshare(ctypes.c_int(flags)), "unshare")


# ---------------------------------------------------------------------------- privileges

_CAPABILITIES_MAX = 64
_CAPABILITY_VERSION = 0x20080522


def _drop_privileges(plan: ConfinementPlan, readable: object) -> None:
    if _MACHINE not in _CAPSET:
        raise OSError(errno.ENOSYS, f"the numbers of system calls on {_MACHINE} are not known")
    _gain_nothing()
    for capability in range(_CAPABILITIES_MAX):
        try:
            _prctl("drop", _PR_CAPBSET_DROP, capability)
        except OSError:
            break  # there are no more, or it has none to drop
    _prctl("ambient", _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    _syscall("capset", _CAPSET[_MACHINE], header, bytes(24))


# ---------------------------------------------------------------------------- landlock

_EXECUTE, _READ_FILE = 1 << 0, 1 << 2
_FS_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
"""All rights that an ABI knows, by the first that has them: REFER, TRUNCATE and IOCTL_DEV came later."""
_NET_RIGHTS = 0b11
"""To bind and to connect TCP sockets, from ABI 4 on."""
_SCOPES = 0b11
"""Abstract sockets and signals, from ABI 6 on."""

Readable = tuple[int, int]
"""A descriptor and the rights of Landlock that it stands for."""


def landlock_abi() -> int:
    """The version of Landlock that the kernel offers; 0 for none."""
    if sys.platform != "linux":
        return 0
    try:
        return _syscall("landlock", _LANDLOCK_CREATE, None, 0, 1)
    except OSError:
        return 0


_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache")


def _readable(plan: ConfinementPlan) -> Iterator[Readable]:
    for descriptor in plan.descriptors:
        yield os.dup(descriptor), _READ_FILE
    paths = [(one, _READ_FILE) for one in plan.needs.files]
    programs = (plan.program, _loader_of(plan.program)) if plan.program else ()
    paths += [(one, _READ_FILE | _EXECUTE) for one in programs if one]
    if programs:  # shared libraries of the system and their index are only read, never executed as programs
        paths += [(one, _READ_FILE) for one in _LIBRARIES]
    for path, rights in paths:
        # What a link in a workspace points to is not what was asked for.
        follow = 0 if path in programs or path in _LIBRARIES else os.O_NOFOLLOW
        try:
            yield os.open(path, os.O_PATH | os.O_CLOEXEC | follow), rights
        except OSError:
            continue


def _loader_of(program: str) -> str:
    """The dynamic loader that a program names (PT_INTERP of ELF64); empty for a static one."""
    with open(program, "rb") as file:
        head = file.read(64)
        if head[:5] != b"\x7fELF\x02":
            return ""
        (start,), (size, count) = (struct.unpack_from("<Q", head, 32), struct.unpack_from("<HH", head, 54))
        for number in range(count):
            file.seek(start + number * size)
            entry = file.read(56)
            if struct.unpack_from("<I", entry)[0] == 3:
                file.seek(struct.unpack_from("<Q", entry, 8)[0])
                return file.read(struct.unpack_from("<Q", entry, 32)[0]).rstrip(b"\0").decode()
    return ""


def _lock_files(plan: ConfinementPlan, readable: Sequence[Readable]) -> None:
    abi = landlock_abi()
    if not abi:
        raise OSError(errno.ENOSYS, "the kernel has no Landlock, or it is switched off")
    rights = _FS_RIGHTS[max(known for known in _FS_RIGHTS if known <= abi)]
    net, scopes = (_NET_RIGHTS if abi >= 4 else 0), (_SCOPES if abi >= 6 else 0)
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    attributes = struct.pack("=QQQ", rights, net, scopes)[:size]
    ruleset = _syscall("landlock ruleset", _LANDLOCK_CREATE, attributes, size, 0)
    try:
        for descriptor, allowed in readable:
            rule = struct.pack("=Qi", allowed, descriptor)
            try:
                _syscall("landlock rule", _LANDLOCK_ADD, ruleset, 1, rule, 0)
            except OSError as error:
                if error.errno != errno.EBADFD:  # a pipe, or a file of the kernel's own: it is no path
                    raise
        _gain_nothing()
        _syscall("landlock", _LANDLOCK_RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)


# ---------------------------------------------------------------------------- seccomp

# name: x86_64, aarch64; -1 where a machine has no such call. Those used most come first.
_ALLOWED: dict[str, tuple[int, int]] = {
    "read": (0, 63),
    "write": (1, 64),
    "futex": (202, 98),
    "poll": (7, -1),
    "ppoll": (271, 73),
    "epoll_wait": (232, -1),
    "epoll_pwait": (281, 22),
    "mmap": (9, 222),
    "munmap": (11, 215),
    "mprotect": (10, 226),
    "madvise": (28, 233),
    "brk": (12, 214),
    "mremap": (25, 216),
    "clock_gettime": (228, 113),
    "select": (23, -1),
    "pselect6": (270, 72),
    "readv": (19, 65),
    "writev": (20, 66),
    "pread64": (17, 67),
    "lseek": (8, 62),
    "close": (3, 57),
    "fstat": (5, 80),
    "newfstatat": (262, 79),
    "stat": (4, -1),
    "lstat": (6, -1),
    "statx": (332, 291),
    "access": (21, -1),
    "faccessat": (269, 48),
    "faccessat2": (439, 439),
    "readlink": (89, -1),
    "readlinkat": (267, 78),
    "getcwd": (79, 17),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
    "sched_yield": (24, 124),
    "nanosleep": (35, 101),
    "clock_nanosleep": (230, 115),
    "getitimer": (36, 102),
    "setitimer": (38, 103),
    "alarm": (37, -1),
    "getpid": (39, 172),
    "getppid": (110, 173),
    "gettid": (186, 178),
    "getuid": (102, 174),
    "geteuid": (107, 175),
    "getgid": (104, 176),
    "getegid": (108, 177),
    "uname": (63, 160),
    "sysinfo": (99, 179),
    "getrusage": (98, 165),
    "times": (100, 153),
    "gettimeofday": (96, 169),
    "clock_getres": (229, 114),
    "getrlimit": (97, 163),
    "setrlimit": (160, 164),
    "sched_getaffinity": (204, 123),
    "set_tid_address": (218, 96),
    "set_robust_list": (273, 99),
    "get_robust_list": (274, 100),
    "rseq": (334, 293),
    "restart_syscall": (219, 128),
    "arch_prctl": (158, -1),
    "membarrier": (324, 283),
    "getrandom": (318, 278),
    "fadvise64": (221, 223),
    "dup": (32, 23),
    "dup2": (33, -1),
    "dup3": (292, 24),
    "pipe2": (293, 59),
    "memfd_create": (319, 279),
    "ftruncate": (77, 46),
    "eventfd2": (290, 19),
    "epoll_create1": (291, 20),
    "epoll_ctl": (233, 21),
    "exit": (60, 93),
    "exit_group": (231, 94),
}

_OPEN = {_X86_64: ((2, 1), (257, 2)), _AARCH64: ((56, 2),)}
"""`open` and `openat`, and which argument holds the flags."""
_OPEN_WRITES = 0o3 | os.O_CREAT | os.O_TRUNC | os.O_APPEND | 0x400000
_CLONE, _CLONE3 = {_X86_64: 56, _AARCH64: 220}, 435
_CLONE_THREAD, _CLONE_NEW = 0x00010000, 0x7E020080
_KILLS = {_X86_64: (62, 234), _AARCH64: (129, 131)}
"""`kill` and `tgkill`, whose first argument is the process."""
_FCNTL = {_X86_64: 72, _AARCH64: 25}
_FCNTL_SIGNALS = (8, 10, 15, 1026)
"""F_SETOWN, F_SETSIG, F_SETOWN_EX and F_NOTIFY send signals to others."""
_IOCTL = {_X86_64: 16, _AARCH64: 29}
_IOCTL_ALLOWED = (0x5401, 0x5421, 0x5451, 0x541B)
"""TCGETS (is it a terminal?), FIONBIO, FIOCLEX and FIONREAD."""
_PRCTL = {_X86_64: 157, _AARCH64: 167}
_PRCTL_ALLOWED = (15, 16)
"""PR_SET_NAME and PR_GET_NAME."""
_PRLIMIT = {_X86_64: 302, _AARCH64: 261}
_EXECVE = {_X86_64: 59, _AARCH64: 221}

_ARCHITECTURE = {_X86_64: 0xC000003E, _AARCH64: 0xC00000B7}
_LOAD, _EQUAL, _AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_DENY, _UNKNOWN = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS

Instruction = tuple[int, int, int, int]
"""Of classic BPF: code, jump if true, jump if false, operand."""


def _when(number: int, *then: Instruction) -> list[Instruction]:
    """Instructions for one system call. They end with a return."""
    return [(_EQUAL, 0, len(then), number), *then]


def _argument(number: int) -> Instruction:
    return (_LOAD, 0, 0, 16 + 8 * number)  # its lower half, on machines of little endian


def _among(number: int, values: Sequence[int], found: int, other: int) -> list[Instruction]:
    tests = [(_EQUAL, len(values) - at, 0, value) for at, value in enumerate(values)]
    return [_argument(number), *tests, (_RETURN, 0, 0, other), (_RETURN, 0, 0, found)]


def _filter_program(*, machine: str, pid: int, may_execute: bool) -> list[Instruction]:
    """The rules of a helper whose process id is `pid`, as classic BPF."""
    column = (_X86_64, _AARCH64).index(machine)
    allow, deny = (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _DENY)
    rules: list[Instruction] = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, _ARCHITECTURE[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),
    ]
    if machine == _X86_64:  # the numbers of the x32 ABI
        rules += [(_AT_LEAST, 0, 1, 0x40000000), (_RETURN, 0, 0, _KILL)]
    for numbers in _ALLOWED.values():
        if numbers[column] >= 0:
            rules += _when(numbers[column], allow)
    for number, flags in _OPEN[machine]:
        no_write = [_argument(flags), (_AND, 0, 0, _OPEN_WRITES), (_EQUAL, 0, 1, 0), allow, deny]
        rules += _when(number, *no_write)
    thread = [
        _argument(0),
        (_AND, 0, 0, _CLONE_NEW | _CLONE_THREAD),
        (_EQUAL, 0, 1, _CLONE_THREAD),
        allow,
        deny,
    ]
    rules += _when(_CLONE[machine], *thread)
    # Its flags are behind a pointer. The C library takes `clone` where there is no `clone3`.
    rules += _when(_CLONE3, (_RETURN, 0, 0, _UNKNOWN))
    for number in _KILLS[machine]:
        rules += _when(number, *_among(0, (pid,), _ALLOW, _DENY))
    rules += _when(_FCNTL[machine], *_among(1, _FCNTL_SIGNALS, _DENY, _ALLOW))
    rules += _when(_IOCTL[machine], *_among(1, _IOCTL_ALLOWED, _ALLOW, _DENY))
    rules += _when(_PRCTL[machine], *_among(0, _PRCTL_ALLOWED, _ALLOW, _DENY))
    rules += _when(_PRLIMIT[machine], *_among(0, (0, pid), _ALLOW, _DENY))
    if may_execute:
        rules += _when(_EXECVE[machine], allow)
    return [*rules, deny]


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def _filter_calls(plan: ConfinementPlan, readable: object) -> None:
    if _MACHINE not in _ARCHITECTURE or struct.calcsize("P") != 8 or sys.byteorder != "little":
        raise OSError(errno.ENOSYS, f"the numbers of system calls on {_MACHINE} are not known")
    rules = _filter_program(machine=_MACHINE, pid=os.getpid(), may_execute=bool(plan.program))
    code = b"".join(struct.pack("=HBBI", *one) for one in rules)
    program = _FilterProgram(len(rules), code)
    _gain_nothing()
    _syscall("seccomp", _SECCOMP[_MACHINE], 1, 0, ctypes.byref(program))


_BUILDERS: dict[str, Callable[[ConfinementPlan, Sequence[Readable]], None]] = {
    "limits": _limit,
    "namespaces": _leave_namespaces,
    "privileges": _drop_privileges,
    "landlock": _lock_files,
    "seccomp": _filter_calls,
}


# ---------------------------------------------------------------------------- the server's side

VARIABLE = "ARTELIER_CONFINEMENT"
AUTO, REQUIRED, OFF = "auto", "required", "off"
CHECK_S = 20.0

_chosen: list[str] = []


def choose(mode: str) -> None:
    """Say for this process what holds: `auto`, `required` or `off`. It goes before the environment."""
    _chosen[:] = [mode]


def mode() -> str:
    """Return what holds. Errors: `InvalidConfig` for a variable that says something else."""
    found = _chosen[0] if _chosen else os.environ.get(VARIABLE, "").strip() or AUTO
    if found not in (AUTO, REQUIRED, OFF):
        from artelier.errors import InvalidConfig

        raise InvalidConfig(f"{VARIABLE} is not known", expected="auto, required or off", got=found[:80])
    return found


@cache
def standing() -> dict[str, str]:
    """Return for each wall why it does not stand on this machine; empty for one that does.

    Each is tried in a process of its own, once.
    """
    import subprocess

    command = [*_script(), "check"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=CHECK_S, env={}, stdin=subprocess.DEVNULL)
        found: dict[str, str] = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return dict.fromkeys(WALLS, f"they cannot be tried: {type(error).__name__}")
    return {wall: found.get(wall, "it was not tried") for wall in WALLS}


def plan_of(
    *, descriptors: Iterable[int] = (), program: str = "", needs: Needs | None = None
) -> ConfinementPlan:
    """Return what holds for a new helper. Errors: `Refused` if a wall is required and does not stand."""
    chosen, needs = mode(), needs or Needs()
    plan = ConfinementPlan(
        walls=() if chosen == OFF else needs.walls,
        descriptors=tuple(descriptors),
        program=program,
        is_required=chosen == REQUIRED,
        needs=needs,
    )
    found = standing() if plan.is_required else {}
    missing = {wall: why for wall, why in found.items() if why and wall in plan.walls}
    if missing:
        from artelier.errors import Refused

        raise Refused(
            "untrusted code is not run here: its confinement is required, and not all of it stands",
            expected=", ".join(WALLS),
            got="; ".join(f"no {wall}: {why}" for wall, why in missing.items()),
            hint=f"`artelier doctor` shows the walls. {VARIABLE}=auto goes on with those that stand.",
        )
    return plan


def _script() -> list[str]:
    """Return what runs this file alone: no environment, no installed package, but its compiled form."""
    where = os.path.dirname(os.path.abspath(__file__))
    code = f"import sys; sys.path.append({where!r}); import confinement as c; c.main(sys.argv[1:])"
    return [sys.executable or "python3", "-I", "-S", "-B", "-c", code]


def module_arguments(plan: ConfinementPlan, module: str) -> list[str]:
    """Return what Python is called with to run a worker module behind the walls."""
    return ["-m", __name__, "run", plan.encode(), module]


def program_launcher(plan: ConfinementPlan) -> str:
    """Return the path of a script that becomes the plan's program behind the walls, with its arguments.

    For libraries that start a program themselves and take only its path. The script is in memory, as long as
    this process is. Errors: `OSError` where there are no files in memory.
    """
    import shlex

    words = [*_script(), "exec", plan.encode()]
    text = f'#!/bin/sh\nexec {" ".join(map(shlex.quote, words))} "$@"\n'
    return f"/proc/self/fd/{_in_memory(text)}"


@cache
def _in_memory(text: str) -> int:
    """A descriptor of a file that holds the text, for the programs that are started from here as well."""
    if not hasattr(os, "memfd_create"):
        raise OSError(errno.ENOSYS, "there are no files in memory here")
    descriptor = os.memfd_create("artelier-launcher", 0)
    os.write(descriptor, text.encode())
    return descriptor


# ---------------------------------------------------------------------------- the helper's side


def run_module(plan: ConfinementPlan, name: str) -> None:
    """Import a worker module, let it load what it needs, and run its `main` behind the walls."""
    module = importlib.import_module(name)
    for needed in plan.needs.preload:
        try:
            importlib.import_module(needed)
        except ImportError:  # whoever needs it gets this error then, and says so
            sys.modules[needed] = cast(ModuleType, None)
    _refuse_without(confine(plan), plan)
    module.main()


def execute(plan: ConfinementPlan, arguments: Sequence[str]) -> None:
    """Become the plan's program, behind the walls, with nothing of this process but input and output."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 2)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir("/")
    _refuse_without(confine(plan), plan)
    os.execve(plan.program, [plan.program, *arguments], {})


def _refuse_without(missing: dict[str, str], plan: ConfinementPlan) -> None:
    if missing and plan.is_required:
        sys.stderr.write(f"confinement: {missing}\n")
        os._exit(REFUSED)


def _check(walls: Sequence[str]) -> dict[str, str]:
    """Try each wall alone in a process of its own: why one does not stand; empty for one that does."""
    found: dict[str, str] = {}
    for wall in walls:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            missing = confine(ConfinementPlan(walls=(wall,)))
            said = missing.get(wall) or ("" if _PROOFS[wall]() else "it was put up and stops nothing")
            os.write(writing, said.encode()[:500])
            os._exit(0)
        os.close(writing)
        os.waitpid(child, 0)
        found[wall] = os.read(reading, 500).decode(errors="replace")
        os.close(reading)
    return found


def _is_denied(act: Callable[[], object]) -> bool:
    try:
        act()
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def _has_no_network() -> bool:
    import socket

    return [name for _, name in socket.if_nameindex()] in ([], ["lo"])


def _has_no_privileges() -> bool:
    with open("/proc/self/status") as file:
        fields = dict(line.split(":", 1) for line in file if ":" in line)
    return int(fields["CapEff"], 16) == 0 and fields["NoNewPrivs"].strip() == "1"


def _has_no_core() -> bool:
    import resource

    return resource.getrlimit(resource.RLIMIT_FSIZE) == (0, 0)


def _opens_no_socket() -> bool:
    return _is_denied(lambda: _call(_libc.socket(2, 1, 0), "socket"))


_PROOFS: dict[str, Callable[[], bool]] = {
    "limits": _has_no_core,
    "namespaces": _has_no_network,
    "privileges": _has_no_privileges,
    "landlock": lambda: _is_denied(lambda: os.open("/proc/self/status", os.O_RDONLY)),
    "seccomp": _opens_no_socket,
}


def main(arguments: Sequence[str]) -> None:
    """Shapes: `check`; `run PLAN MODULE`; `exec PLAN ARGUMENT...`."""
    how, *rest = arguments
    if how == "check":
        sys.stdout.write(json.dumps(_check(WALLS)))
    elif how == "run":
        run_module(decode_plan(rest[0]), rest[1])
    else:
        execute(decode_plan(rest[0]), rest[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
