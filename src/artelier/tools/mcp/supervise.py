"""Runs a server's program as long as the process that wants it lives. A script, never imported.

    python supervise.py LIFELINE PROGRAM [ARGUMENT...]

LIFELINE is the reading end of a pipe whose other end only that process holds. When it closes, however that
process ended (`kill -9` included), the whole process group dies: the program and what it started.
"""

import os
import signal
import subprocess
import sys
import threading


def watch(lifeline: int) -> None:
    """Wait for the end of the other side, then end this process group."""
    while os.read(lifeline, 1):
        pass
    os.killpg(0, signal.SIGKILL)


def wait_on(_signal: int, _frame: object) -> None:
    """Answer a signal with nothing."""


def main() -> int:
    """Exit code: that of the program, 128 + n for a signal n, 127 if it does not start."""
    lifeline, command = int(sys.argv[1]), sys.argv[2:]
    try:
        program = subprocess.Popen(command)  # the lifeline is not inherited
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        sys.stderr.flush()
        return 127
    # The group is told to end with SIGTERM; the program may want a moment, and we report its end.
    signal.signal(signal.SIGTERM, wait_on)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(nothing, stream)  # else the program's streams would stay open after its end
    threading.Thread(target=watch, args=(lifeline,), daemon=True).start()
    code = program.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    os._exit(main())
