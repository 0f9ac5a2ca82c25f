"""Tries everything once, and says what it reached. One line of JSON in, one line of JSON out.

An attempt returns what it has got, or raises `OSError`. Calls that would change the machine have arguments
that the kernel refuses only after it has looked at whether they are allowed: then they were reached.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import mmap
import os
import resource
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable
from typing import Any

Attempt = Callable[[dict[str, Any]], object]
REFUSALS = {errno.EPERM, errno.EACCES, errno.ENOSYS}
ATTEMPTS: dict[str, Attempt] = {}

libc = ctypes.CDLL(None, use_errno=True)
MACHINE = os.uname().machine
NUMBERS = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "tgkill": (234, 131),
    "mount": (165, 40),
    "setns": (308, 268),
    "unshare": (272, 97),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "perf_event_open": (298, 241),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "keyctl": (250, 219),
    "open_by_handle_at": (304, 265),
    "chroot": (161, 51),
    "shmget": (29, 194),
    "execve": (59, 221),
    "kexec_load": (246, 104),
    "init_module": (175, 105),
    "process_madvise": (440, 440),
    "quotactl": (179, 60),
}


def attempt(name: str) -> Callable[[Attempt], Attempt]:
    def keep(function: Attempt) -> Attempt:
        ATTEMPTS[name] = function
        return function

    return keep


def call(name: str, *arguments: Any) -> int:
    passed = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    number = NUMBERS[name][MACHINE == "aarch64"]
    result = libc.syscall(ctypes.c_long(number), *passed)
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def reaches(name: str, *arguments: Any) -> Attempt:
    """A call that fails with anything but a refusal has been looked into by the kernel."""

    def act(facts: dict[str, Any]) -> object:
        try:
            return call(name, *arguments)
        except OSError as error:
            if error.errno in REFUSALS:
                raise
            return errno.errorcode.get(error.errno or 0, error.errno)

    return act


# Files


@attempt("read /etc/passwd")
def _passwd(facts: dict[str, Any]) -> object:
    with open("/etc/passwd") as file:
        return file.read(20)


@attempt("read a file of the user")
def _secret(facts: dict[str, Any]) -> object:
    with open(facts["secret"]) as file:
        return file.read()


@attempt("list a folder")
def _list(facts: dict[str, Any]) -> object:
    return os.listdir(facts["folder"])


@attempt("write a new file")
def _write(facts: dict[str, Any]) -> object:
    with open(f"{facts['folder']}/owned", "w") as file:
        return file.write("owned")


@attempt("append to a file of the user")
def _append(facts: dict[str, Any]) -> object:
    with open(facts["secret"], "a") as file:
        file.write(" ")
        return "appended"


@attempt("make a folder")
def _mkdir(facts: dict[str, Any]) -> object:
    os.mkdir(f"{facts['folder']}/made")
    return "made"


@attempt("make a link")
def _symlink(facts: dict[str, Any]) -> object:
    os.symlink("/etc", f"{facts['folder']}/link")
    return "linked"


@attempt("rename a file")
def _rename(facts: dict[str, Any]) -> object:
    os.rename(facts["spare"], f"{facts['spare']}.x")
    return "renamed"


@attempt("delete a file")
def _unlink(facts: dict[str, Any]) -> object:
    os.unlink(facts["doomed"])
    return "deleted"


# The server


@attempt("read the server's environment")
def _environ(facts: dict[str, Any]) -> object:
    with open(f"/proc/{facts['server']}/environ", "rb") as file:
        return len(file.read(10))


@attempt("read the server's memory by /proc")
def _memory(facts: dict[str, Any]) -> object:
    with open(f"/proc/{facts['server']}/mem", "rb", buffering=0) as file:
        file.seek(facts["address"])
        return file.read(8).decode()


@attempt("read the server's memory by process_vm_readv")
def _vm(facts: dict[str, Any]) -> object:
    buffer = ctypes.create_string_buffer(8)
    here = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
    there = (ctypes.c_void_p * 2)(facts["address"], 8)
    call("process_vm_readv", facts["server"], here, 1, there, 1, 0)
    return buffer.raw.decode()


@attempt("trace the server")
def _ptrace(facts: dict[str, Any]) -> object:
    call("ptrace", 0x4206, facts["server"], 0, 0)  # PTRACE_SEIZE: the server goes on
    return "traced"


@attempt("list the server's descriptors")
def _descriptors(facts: dict[str, Any]) -> object:
    return len(os.listdir(f"/proc/{facts['server']}/fd"))


@attempt("take a descriptor of the server by pidfd")
def _pidfd(facts: dict[str, Any]) -> object:
    pidfd = call("pidfd_open", facts["server"], 0)
    return call("pidfd_getfd", pidfd, 0, 0)


@attempt("find a descriptor of the server in this process")
def _inherited(facts: dict[str, Any]) -> object:
    for descriptor in range(3, 256):
        try:
            if os.pread(descriptor, 100, 0) == b"a secret of the user":
                return descriptor
        except OSError:
            continue
    raise OSError(errno.EPERM, "there is none")


@attempt("find a key of the server in the environment")
def _variables(facts: dict[str, Any]) -> object:
    if facts["variable"] not in os.environ:
        raise OSError(errno.EPERM, "it is not there")
    return "found"


@attempt("send the server a signal by kill")
def _kill(facts: dict[str, Any]) -> object:
    os.kill(facts["server"], signal.SIGURG)  # ignored unless somebody asks for it
    return "sent"


@attempt("send the server a signal by tgkill")
def _tgkill(facts: dict[str, Any]) -> object:
    call("tgkill", facts["server"], facts["server"], int(signal.SIGURG))
    return "sent"


@attempt("have a pipe signal the server")
def _owner(facts: dict[str, Any]) -> object:
    fcntl.fcntl(0, fcntl.F_SETOWN, facts["server"])
    return "set"


@attempt("change the server's limits")
def _prlimit(facts: dict[str, Any]) -> object:
    resource.prlimit(facts["server"], resource.RLIMIT_CORE, (0, 0))
    return "changed"


# Network


@attempt("connect by TCP")
def _tcp(facts: dict[str, Any]) -> object:
    with socket.create_connection(("127.0.0.1", facts["port"]), timeout=5) as connection:
        return connection.getpeername()[1]


@attempt("listen on TCP")
def _listen(facts: dict[str, Any]) -> object:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@attempt("send by UDP")
def _udp(facts: dict[str, Any]) -> object:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        return sender.sendto(b"data", ("127.0.0.1", facts["port"]))


@attempt("connect to an abstract socket")
def _abstract(facts: dict[str, Any]) -> object:
    with socket.socket(socket.AF_UNIX) as sender:
        sender.connect("\0" + facts["abstract"])
        return "connected"


@attempt("connect to a socket in a folder")
def _unix(facts: dict[str, Any]) -> object:
    with socket.socket(socket.AF_UNIX) as sender:
        sender.connect(facts["socket"])
        return "connected"


@attempt("ask the kernel by netlink")
def _netlink(facts: dict[str, Any]) -> object:
    names = [name for _, name in socket.if_nameindex()]
    if names in ([], ["lo"]):
        raise OSError(errno.EPERM, "there is nothing to see")
    return names


# Processes and memory


@attempt("fork")
def _fork(facts: dict[str, Any]) -> object:
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    return "forked"


@attempt("start a program")
def _spawn(facts: dict[str, Any]) -> object:
    child = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(child, 0)
    return "started"


@attempt("become another program")
def _exec(facts: dict[str, Any]) -> object:
    # It is of no format that the kernel knows, so that this process goes on to say that it may.
    try:
        os.execve(facts["program"], ["sh"], {})
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
        return "reached"


@attempt("map 8 GiB")
def _map(facts: dict[str, Any]) -> object:
    mapping = mmap.mmap(-1, 8 * 1024**3, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    mapping.close()
    return "mapped"


@attempt("open 2,000 descriptors")
def _many(facts: dict[str, Any]) -> object:
    copies: list[int] = []
    try:
        for _ in range(2_000):
            copies.append(os.dup(0))
    finally:
        for copy in copies:
            os.close(copy)
    return len(copies)


@attempt("raise a limit again")
def _raise_limit(facts: dict[str, Any]) -> object:
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if hard == resource.RLIM_INFINITY:
        return "there is none"
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return "raised"


@attempt("go back to the host's namespaces")
def _setns(facts: dict[str, Any]) -> object:
    descriptor = os.open(f"/proc/{facts['server']}/ns/mnt", os.O_RDONLY)
    try:
        return call("setns", descriptor, 0)
    finally:
        os.close(descriptor)


# The kernel's own doors, which are where its faults are found.
NONE = ctypes.c_void_p(None)
HANDLE = struct.pack("=Ii8x", 8, 1)
ATTEMPTS |= {
    "io_uring_setup": reaches("io_uring_setup", 0, NONE),
    "userfaultfd": reaches("userfaultfd", 0x40000000),
    "bpf": reaches("bpf", 9_999, NONE, 0),
    "perf_event_open": reaches("perf_event_open", NONE, 0, -1, -1, 0),
    "mount": reaches("mount", b"none", b"/", b"of no type", 0, NONE),
    "setns": reaches("setns", -1, 0),
    "keyctl": reaches("keyctl", 9_999, 0, 0, 0, 0),
    "open_by_handle_at": reaches("open_by_handle_at", -100, HANDLE, 0),
    "chroot": reaches("chroot", b"/"),
    "shmget": reaches("shmget", 0, 0, 0),
    "kexec_load": reaches("kexec_load", 0, 9_999, NONE, 0),
    "init_module": reaches("init_module", NONE, 0, b""),
    "process_madvise": reaches("process_madvise", -1, NONE, 0, 0, 0),
    "quotactl": reaches("quotactl", 9_999, NONE, 0, NONE),
    # The last, since in a namespace of its own a process has every capability.
    "unshare": reaches("unshare", 0x10000000),
}


def run(name: str, facts: dict[str, Any]) -> list[Any]:
    """`[reached, what]`."""
    try:
        return [True, repr(ATTEMPTS[name](facts))[:80]]
    except OSError as error:
        code = errno.errorcode.get(error.errno or 0, "") or type(error).__name__
        return [False, code]
    except (MemoryError, ValueError) as error:
        return [False, type(error).__name__]


def main() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    facts: dict[str, Any] = json.loads(sys.stdin.readline())
    thread = threading.Thread(target=int)  # what workers need goes on to work
    thread.start()
    thread.join()
    found = {name: run(name, facts) for name in ATTEMPTS}
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
