"""Keys of steps: each step of a run has one, given by its caller or by its place among its siblings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from artelier.errors import AmbiguousStepKey, InvalidRequest, StepConflict


@dataclass(slots=True)
class StepKeys:
    """Hands out step keys and knows which steps of a parent are in flight."""

    counters: dict[str, int] = field(default_factory=dict[str, int])
    in_flight: dict[str, int] = field(default_factory=dict[str, int])
    taken: set[str] = field(default_factory=set[str])
    """Full keys that were given explicitly; ordinals are known by their counter."""
    check: Callable[[str], None] | None = None
    """Refuses a key that somebody chose and that must not stand in the log."""

    def take(self, parent: str, key: str | None) -> str:
        """The step's full key.

        Errors: `AmbiguousStepKey` for an implicit one beside a running step; `StepConflict` for one that
        this drive has used; `InvalidRequest` for one that cannot be stored.
        """
        busy = self.in_flight.get(parent, 0)
        if key is None:
            if busy:
                raise AmbiguousStepKey(
                    "two steps without a key are in flight at once; their order is not defined",
                    expected="an explicit key, run.branch(name), or run.gather(...)",
                    got=f"{busy + 1} steps under {parent or 'the run'}",
                )
            number = self.counters.get(parent, 0) + 1
            self.counters[parent] = number
            full = f"{parent}/{number}" if parent else str(number)
            used = full in self.taken
        else:
            check_key(key)
            full = f"{parent}/{key}" if parent else key
            if self.check is not None:
                self.check(full)
            above, _, last = full.rpartition("/")
            used = full in self.taken or (last.isdecimal() and 1 <= int(last) <= self.counters.get(above, 0))
            self.taken.add(full)
        if used:
            raise StepConflict(
                f"two steps of this run have the key {full!r}",
                hint="Give each step a key of its own, or none.",
                key=full,
            )
        self.in_flight[parent] = busy + 1
        return full

    def done(self, parent: str) -> None:
        self.in_flight[parent] -= 1


KEY_CHARS_MAX = 256


def check_key(key: object) -> None:
    """Errors: `InvalidRequest` unless `key` is text that can be a part of a step's key."""
    if not isinstance(key, str) or not 0 < len(key) <= KEY_CHARS_MAX or not key.isprintable():
        raise InvalidRequest(
            "this cannot be the key of a step",
            expected=f"1-{KEY_CHARS_MAX} printable characters",
            got=repr(key)[:80],
        )
