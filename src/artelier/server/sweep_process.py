"""A process of a server's sweep: it passes worlds whose models cost nothing, in stores of their own.

    python -m artelier.server.sweep_process

`artelier.world.figures.sweep_processes` says what it reads and answers. It has no key, no tool and none of
the server's data: of models it asks the offline one alone. What it takes of the machine is bounded, and it
has the least share of the processors.
"""

from __future__ import annotations

import os
import resource
import traceback
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from artelier.child_loop import MIB, bound_memory

if TYPE_CHECKING:
    from artelier.world.figures.sweep_processes import JobEnd, OpenStore, SweepJob

MODULE = "artelier.server.sweep_process"
"""This one, as Python starts it."""

MEMORY_BYTES_MAX = 2048 * MIB
"""Address space of one, most of which is never used: libraries, and what threads reserve."""

STORE_BYTES_MAX = 256 * MIB
"""Of each file that it writes: the database of one run."""

NICENESS = 19
AUTOGROUP = Path("/proc/self/autogroup")
"""The share of a session. Linux shares processors by sessions, and `nice` counts within one alone."""


def main() -> None:
    """Answer jobs until there is no more input."""
    os.nice(NICENESS)
    with suppress(OSError):
        AUTOGROUP.write_text(str(NICENESS))
    bound_memory(MEMORY_BYTES_MAX)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (STORE_BYTES_MAX, hard))

    # Half a second of imports, which has the least share as well.
    from artelier.world.figures.sweep_processes import serve_jobs

    serve_jobs(_open_store, _failed_end)


@asynccontextmanager
async def _open_store(job: SweepJob, database: Path) -> AsyncGenerator[OpenStore]:
    from artelier.app import Kernel
    from artelier.kernel import Policy
    from artelier.models.registry import OFFLINE
    from artelier.world.figures.sweep_processes import OpenStore
    from artelier.world.genesis import shipped_policies

    kernel = Kernel.open(database, environ={}, policy=Policy(models=(OFFLINE,)))
    try:
        tenant = kernel.for_tenant()
        await tenant.state()
        yield OpenStore(host=tenant, policies=shipped_policies, committed=_committed, allot=_allot)
    finally:
        await kernel.aclose()


async def _committed() -> int:
    """Return 0: the offline model costs nothing."""
    return 0


async def _allot(allotted: int | None) -> None:
    """Do nothing: nothing is spent."""


def _failed_end(job: SweepJob, error: Exception, committed: int) -> JobEnd:
    from artelier.errors import ArtelierError, Conflict, Flow, StoreUnavailable
    from artelier.world.figures.sweep_processes import JobEnd

    traceback.print_exception(error)  # into the server's log
    if isinstance(error, StoreUnavailable):  # its words name files of the server
        error = StoreUnavailable(
            "the store of the run cannot be written",
            expected=f"a world of at most {STORE_BYTES_MAX // MIB} MiB, and room on the server's disk",
            hint="Ask for fewer ticks or agents.",
        )
    elif isinstance(error, Flow):
        error = Conflict(str(error))
    elif not isinstance(error, ArtelierError):
        error = Conflict(f"the run ended with a {type(error).__name__}", hint="The server's log says more.")
    return JobEnd(ended="failed", committed=committed, error=error.to_wire())


if __name__ == "__main__":
    main()
