"""Commands to a run, and the effect that each has: a pure function. `control_stream` records both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from artelier.errors import InvalidRequest
from artelier.kernel import events as ev
from artelier.kernel.run.status import FINAL
from artelier.kernel.run_limits import decode_limits, resets_of
from artelier.log import EventData

VERBS = frozenset(
    ("pause", "resume", "step", "cancel", "stop", "inject", "answer", "signal", "reconcile", "retry", "limit")
)


REOPEN = "reopen"
"""As `key` of `resume`: a failed run shall go on, with the note or the raised limits that come with it."""

REJECTED = "rejected"
"""As `key` of `retry`: a completed run shall go on, whose result a person has rejected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """One thing that a person wants of a run."""

    verb: str
    key: str = ""
    choice: str = ""
    payload: Any = None
    request: str = ""
    """Names what asked for it."""
    is_repeat: bool = False
    """True if the request may have given it already: then it is not given again, but waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandStanding:
    """The state of a run on which the effect of a command depends."""

    run_id: str
    status: str
    driven: bool
    """True if some process drives the run, and will go on by itself."""
    open_approvals: frozenset[str]
    unresolved: frozenset[str]
    """Steps whose outcome is unknown: of a run that has ended, those at work at its end too."""
    used: dict[str, int]
    """The use of the run and its children, per unit, for a cap that is set late."""
    failed: tuple[str, ...] = ()
    """Of a failed run: the steps whose failure ended it."""
    reason: str = ""
    """Of a failed run of a built-in loop: why it ended."""
    cycle: int = 0
    """Completed cycles of such a run."""
    stepping: bool = False
    """True if it goes on for one cycle only."""
    compensated: bool = False
    """True of a failed run if something that it did was undone since."""
    has_open_children: bool = False
    """True of a run that has ended if children of it, which count in its limits, are at work again."""


def decide(standing: CommandStanding, command: ev.CommandGiven, seq: int) -> EventData:
    """Return the effect of a command; one that makes no sense now is refused with a code. Pure."""
    verb, status, queued = command.verb, standing.status, not standing.driven
    refused = _refusal(standing, command)
    if refused:
        return ev.CommandRefused(command=seq, code=refused)
    if verb == "pause":
        return ev.RunPaused(command=seq, note=command.payload)
    if verb == "stop":
        return ev.RunPaused(command=seq, stopped=True, note=command.payload)
    if verb == "retry" or (verb == "resume" and status == "failed"):
        limits = decode_limits(command.choice) or {}
        return ev.RunReopened(
            command=seq,
            queued=queued,
            steps=standing.failed,
            cycle=standing.cycle,
            resets=resets_of(standing.reason, raised=limits),
            limits=limits,
            in_order=True,
            cleaned_up=True,
            from_failure=True,
        )
    if verb in ("resume", "step"):
        return ev.RunResumed(command=seq, queued=queued, stepping=verb == "step")
    if verb == "cancel":
        return ev.RunCancelled(command=seq, note=command.payload)
    if verb == "inject" and command.payload is not None:
        return ev.NoteInjected(command=seq, text=command.payload)
    if verb == "signal":
        return ev.SignalReceived(command=seq, queued=queued, name=command.key, data=command.payload)
    if verb == "answer":
        return ev.ApprovalGiven(
            command=seq, queued=queued, key=command.key, decision=command.choice, answer=command.payload
        )
    if verb == "reconcile":
        return ev.ToolReconciled(
            command=seq, queued=queued, key=command.key, answer=command.choice, result=command.payload
        )
    if verb == "limit":
        cap = int(command.choice) if command.choice else None
        return ev.LimitSet(
            command=seq,
            scope=f"run:{standing.run_id}",
            unit=command.key,
            cap=cap,
            used=standing.used.get(command.key, 0),
        )
    raise InvalidRequest("unknown command", got=f"{verb} on a run that is {status}")


def _refusal(standing: CommandStanding, command: ev.CommandGiven) -> str:
    verb, status = command.verb, standing.status
    if not _makes_sense(command):
        return "invalid_command"
    reopens = command.key == REOPEN and (status == "failed" or command.choice != "")
    if verb == "retry" or (verb == "resume" and reopens):
        if standing.compensated:
            return "compensated"
        if verb == "retry" and command.key == REJECTED and status == "completed":
            return ""
        if status != "failed":
            return "not_failed"
        most = (decode_limits(command.choice) or {}).get("max_iterations", standing.cycle + 1)
        return "" if most > standing.cycle else "limit_used_up"
    undoing = verb in ("answer", "reconcile") and "/undo" in command.key
    # What became of a call that was left at work can be said at any time; nobody makes it again.
    settling = verb == "reconcile" and command.key in standing.unresolved and command.choice != "retry"
    limiting = verb == "limit" and standing.has_open_children
    # What a run has done is undone after its end.
    if status in FINAL and not undoing and not settling and not limiting:
        return "run_ended"
    if verb == "answer" and command.key not in standing.open_approvals:
        return "no_such_approval"
    if verb == "reconcile" and command.key not in standing.unresolved:
        return "no_such_unknown_outcome"
    if verb == "resume" and standing.driven and status != "paused" and not standing.stepping:
        return "not_paused"
    return ""


def _makes_sense(command: ev.CommandGiven) -> bool:
    """Return True if this version can obey it. Control streams are written by any process, of any version."""
    verb, choice = command.verb, command.choice
    if verb == "inject":
        return command.payload is not None
    if verb == "resume":
        return decode_limits(choice) is not None
    if verb == "answer":
        return choice in ("approve", "deny", "edit")
    if verb == "reconcile":
        return choice in ("succeeded", "failed", "retry")
    if verb == "limit":
        cap_fits = choice == "" or (choice.isascii() and choice.isdigit() and len(choice) < 19)
        return command.key in ("usd", "tokens", "steps", "ms") and cap_fits
    return verb in VERBS


REFUSALS = {
    "invalid_command": "this version cannot obey such a command",
    "not_failed": "only a failed run can be retried, or be given more cycles",
    "limit_used_up": "it has used up that many cycles already: they are counted from the run's beginning",
    "run_ended": "the run has ended",
    "no_such_approval": "no approval of that step is open",
    "no_such_unknown_outcome": "that step has no unknown outcome",
    "not_paused": "the run is not paused",
    "compensated": "what it did has been undone; its code must not go on as if it had not",
}
