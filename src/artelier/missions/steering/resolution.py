"""The conversion of a steering reading to the guidance of one iteration, and to the bounds of the kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from artelier.kernel import RunCore
from artelier.kernel.limits.scopes import count_also
from artelier.missions.steering.directives import Guidance
from artelier.missions.steering.document import Steering, apply, effective
from artelier.missions.steering.policy import bias


def guidance_of(reading: Any, core: RunCore) -> Guidance:
    """Steering as it was read, with what a fork has changed; from now on the run's core keeps to it, and
    counts in the membranes that its agent has joined.

    Without any, nothing is asked for beyond the task, and nothing is off.
    Errors: `InvalidRequest` if what a fork changes is no steering.
    """
    count_also(core, joined_scopes(reading))
    steering = steering_of(reading, core.changes)
    if steering is not None:
        room = core.result_bytes_max
        apply(core, steering)
        core.result_bytes_max = min(room, core.result_bytes_max)
    return guidance(reading, steering)


def joined_scopes(reading: Any) -> list[tuple[str, str]]:
    """The (scope, unit) pairs in which an agent counts for membranes that it joined since its run began."""
    found: list[list[str]] = cast("dict[str, Any]", reading or {}).get("counters") or []
    return [(scope, unit) for scope, unit in found]


def steering_of(reading: Any, changes: Mapping[str, Any]) -> Steering | None:
    """Return what a reading comes to; None if nobody has steered. Errors: as of `guidance_of`."""
    own, shared = _read(reading)
    if own is None and not shared and changes.get("steering") is None:
        return None
    return effective(
        None if own is None else Steering.parse(own[1]),
        [Steering.parse(content) for _, content in shared],
        changes,
    )


def guidance(reading: Any, steering: Steering | None) -> Guidance:
    """A steering as an iteration goes by it."""
    if steering is None:
        return Guidance()
    own, shared = _read(reading)
    policy = bias(steering)
    return Guidance(
        text=policy.text,
        temperature=policy.temperature,
        iterations=steering.iterations,
        delegation_depth=steering.delegation_depth,
        output_bytes=steering.output_bytes,
        breadth=policy.breadth,
        refs=tuple(str(ref) for ref, _ in [*([] if own is None else [own]), *shared]),
    )


def _read(reading: Any) -> tuple[list[Any] | None, list[list[Any]]]:
    found = cast("dict[str, Any]", reading or {})
    return found.get("agent"), found.get("membranes") or []
