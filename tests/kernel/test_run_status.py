"""The status machine of a run: which status follows which, and what an end keeps out."""

from __future__ import annotations

import pytest

from artelier.errors import CorruptStore
from artelier.kernel.run.status import RunStatus, StatusMachine

FINAL = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED)


@pytest.mark.parametrize("end", FINAL)
@pytest.mark.parametrize("status", RunStatus)
def test_a_run_that_has_ended_becomes_nothing_else(end: RunStatus, status: RunStatus) -> None:
    machine = StatusMachine()
    machine.enter(end.value)

    if status is end or (end, status) == (RunStatus.FAILED, RunStatus.PENDING):  # it was reopened
        machine.become(status)
        assert machine.status is status
    else:
        with pytest.raises(AssertionError, match=f"a run that is {end} does not become {status}"):
            machine.become(status)
        assert machine.status is end


@pytest.mark.parametrize("end", FINAL)
def test_an_end_stands_whatever_steps_still_report(end: RunStatus) -> None:
    machine = StatusMachine()
    machine.become(end)

    machine.report(RunStatus.RUNNING)

    assert machine.status is end


def test_an_ended_run_that_is_undone_waits_like_any_other() -> None:
    machine = StatusMachine()
    machine.enter("failed", is_undoing=True)

    machine.report(RunStatus.WAITING_APPROVAL)

    assert machine.status is RunStatus.WAITING_APPROVAL


@pytest.mark.parametrize("one", [one for one in RunStatus if one not in FINAL])
def test_an_open_run_can_end_in_every_way_and_wait_for_anything(one: RunStatus) -> None:
    assert one.successors == frozenset(RunStatus) - {one}


def test_a_batch_that_was_refused_ends_a_run_as_failed() -> None:
    machine = StatusMachine()
    machine.become(RunStatus.COMPLETED)

    machine.fail_unrecorded()

    assert machine.status is RunStatus.FAILED


def test_a_status_that_no_run_has_is_refused() -> None:
    with pytest.raises(CorruptStore, match="a status that is none"):
        StatusMachine().enter("asleep")
