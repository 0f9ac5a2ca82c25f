"""CPU that an import costs above an empty interpreter, byte-compiled."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence

from artelier_lab.bench.figures import median
from artelier_lab.bench.processes import compiling_environ, python

IMPORT = ("-c", "import artelier")
KERNEL = ("-c", "from artelier import Kernel, tool")
HELP = ("-m", "artelier", "--help")
NOTHING = ("-c", "pass")


def child_cpu_ms(arguments: Sequence[str]) -> float:
    """CPU, user and system, of one Python process with these arguments. Errors: `CalledProcessError`."""
    from resource import RUSAGE_CHILDREN, getrusage  # Unix only; os.times() counts in 10 ms

    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run(
        python(*arguments),
        check=True,
        env=compiling_environ(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    after = getrusage(RUSAGE_CHILDREN)
    spent_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return spent_s * 1000


def bench_imports(*, times: int, progress: Callable[[str], None]) -> dict[str, float]:
    """Medians of several processes each, in turns with empty ones."""
    commands = {"import_cpu_ms": IMPORT, "import_kernel_cpu_ms": KERNEL, "help_cpu_ms": HELP}
    progress("kernel: imports")
    for arguments in commands.values():
        child_cpu_ms(arguments)  # writes the byte code
    found: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(times):
        empty = child_cpu_ms(NOTHING)
        for name, arguments in commands.items():
            found[name].append(child_cpu_ms(arguments) - empty)
    return {name: max(0.0, median(values)) for name, values in found.items()}
