"""The end of a task, and the behaviour of a reopened task at a place where it had ended before."""

from __future__ import annotations

from collections.abc import Sequence

from artelier.errors import (
    ArtelierError,
    Exhausted,
    External,
    OutputInvalid,
    Refused,
    StoreUnavailable,
    UnknownModel,
)
from artelier.kernel import Run
from artelier.kernel.history.fork_lineage import lineage
from artelier.kernel.steps.failures import RecordedError, code_of, words
from artelier.log import Blob, BlobRef
from artelier.log.queries import events_between
from artelier.missions import events as ev
from artelier.missions.task.loop_state import ENDS, TaskOutput, begins_anew, goes_on

_FAILURES = (External, Refused, Exhausted, OutputInvalid, UnknownModel, RecordedError)


class Ended(Exception):
    """The task ends here."""

    def __init__(
        self,
        status: str,
        reason: str,
        *,
        iteration: int = 0,
        by: str = "",
        message: str = "",
        outputs: tuple[TaskOutput, ...] | None = None,
        verdict: BlobRef | None = None,
    ) -> None:
        super().__init__(message or reason or status)
        self.status = status
        self.reason = reason
        self.iteration = iteration
        self.by = by
        self.message = message
        self.outputs = outputs
        """What it leaves; None for what it had before this iteration."""
        self.verdict = verdict
        """Of the evaluation that passed; a person may reject all the same what it was about."""

    @property
    def is_before_work(self) -> bool:
        return begins_anew(self.reason, self.iteration)


def failed_by(error: ArtelierError, *, iteration: int) -> Ended | None:
    """The end that a step's failure is; None for what says nothing of the task: it goes to the caller."""
    if isinstance(error, StoreUnavailable) or not isinstance(error, _FAILURES):
        return None
    return Ended("failed", code_of(error), iteration=iteration, message=words(error))


class Endings:
    """The ends that one run has recorded, each by the iteration in which it came."""

    def __init__(self, run: Run) -> None:
        self._run = run

    async def goes_on(self, ended: Ended, outputs: Sequence[str]) -> bool:
        """Record an end. True if it is recorded already and a person has reopened the task since."""
        number = 0
        while True:
            number += 1
            key = _key(ended, number)
            is_known = await self._run.core.history.knows(key)
            told = await self._receipt(key, ended, outputs)
            if not is_known:
                return False
            is_same = (told.status, told.reason) == (ended.status, ended.reason)
            if is_same and not await self._is_past():
                return False
            if is_same and goes_on(ended.status, ended.reason):
                return True

    async def passed_over(self, iteration: int) -> None:
        """An iteration that had failed of a step, which was asked again: its old end stands for nothing."""
        history, number = self._run.core.history, 1
        past = Ended("", "", iteration=iteration)
        while not history.at_end and await history.knows(_key(past, number)):
            await self._receipt(_key(past, number), past, ())
            number += 1

    async def _receipt(self, key: str, ended: Ended, outputs: Sequence[str]) -> ev.TaskEnded:
        async def make(full: str) -> tuple[ev.TaskEnded, list[Blob]]:
            event = ev.TaskEnded(
                key=full,
                status=ended.status,
                reason=ended.reason,
                iterations=ended.iteration,
                outputs=tuple(outputs),
                by=ended.by,
            )
            return event, []

        return await self._run.receipt(ev.TaskEnded, make, key=key)

    async def _is_past(self) -> bool:
        """Return True if the end that was just met in the record is not the last word.

        A process may have died between the task's end and its run's: then nobody has reopened it.
        """
        core = self._run.core
        if await core.history.read_unasked():
            return True
        if core.actor is None:
            return False
        ends = reopened = 0
        for place in await lineage(core.services, core.tenant.id, core.run_id):
            rows = await events_between(core.store, place.stream_id, ENDS, after=0, upto=place.upto)
            ends += sum(one.kind == ev.TaskEnded.KIND for one in rows)
            reopened += sum(one.kind != ev.TaskEnded.KIND for one in rows)
        return reopened >= ends


def _key(ended: Ended, number: int) -> str:
    """Beside the steps of its iteration; the limit is reached between two of them."""
    place = f"c{ended.iteration}/end"
    if ended.reason == "max_iterations":
        place = f"limit/{ended.iteration}"
    return place if number == 1 else f"{place}-{number}"
