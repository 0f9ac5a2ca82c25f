"""The worker in the server's process: what nobody drives is driven here, of all tenants."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from artelier.agents import Worker
from artelier.app import Kernel
from artelier.errors import ArtelierError, StoreClosed, StoreUnavailable
from artelier.kernel import AgentResult

logger = logging.getLogger("artelier.server")

PAUSE_S = 1.0
"""Before a worker that the store refused looks again."""


SETTLE_S = 3.0
"""Before runs of a process that is gone are taken up: the page opens first, whatever they do."""


class Driver:
    """Drives runs until it is stopped; those at hand stay resumable."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._task: asyncio.Task[None] | None = None

    @property
    def is_at_work(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._forever())

    async def stop(self) -> None:
        """End the work at hand; its runs stay resumable."""
        if self._task is None:
            return
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _forever(self) -> None:
        """A store that is locked or full for now is no reason to stop for good."""
        while True:
            worker = Worker(self._kernel, self._kernel.services, report=_report)
            try:
                await worker.forever(settle_s=SETTLE_S)
            except StoreClosed:
                return
            except StoreUnavailable as error:
                logger.error("the worker cannot read the store: %s", error.code)
                await self._kernel.services.clock.sleep(PAUSE_S)


def _report(tenant: str, run_id: str, outcome: AgentResult | ArtelierError) -> None:
    if isinstance(outcome, ArtelierError):
        logger.warning("run %s of %s cannot be driven here: %s", run_id, tenant, outcome.code)
    else:
        logger.info("run %s of %s is %s", run_id, tenant, outcome.status)
