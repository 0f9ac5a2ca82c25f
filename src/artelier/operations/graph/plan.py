"""The plan of a run: the operations to start, and the order in which their effects are committed. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from artelier.operations.events import PlannedOperation
from artelier.operations.profile.definition import HOOKS, Hook, Operation
from artelier.operations.profile.operation_profile import OperationProfile

Marks = Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """An operation at one hook."""

    operation: Operation
    hook: Hook
    skipped: str = ""
    """Why it will not be started; empty if it may be."""
    counters: Mapping[str, int] = field(default_factory=dict[str, int])
    """Where its activation stands; empty for one without."""

    @property
    def id(self) -> str:
        return self.operation.operation_id

    @property
    def key(self) -> str:
        """Key of its receipt in the run."""
        return f"{self.hook}/{self.id}"

    def to_planned(self) -> PlannedOperation:
        operation = self.operation
        return PlannedOperation(
            operation_id=self.id,
            hook=self.hook,
            kind=operation.kind,
            required=operation.required,
            order=round(operation.order * 1_000),
            depends_on=operation.depends_on,
            skipped=self.skipped,
            counters=dict(self.counters),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationPlan:
    """Everything that a run may start; each hook in the order of commit."""

    before: tuple[Slot, ...] = ()
    after: tuple[Slot, ...] = ()

    def at(self, hook: Hook) -> tuple[Slot, ...]:
        return self.before if hook == "before_main_llm" else self.after

    def to_planned(self) -> tuple[PlannedOperation, ...]:
        return tuple(slot.to_planned() for slot in (*self.before, *self.after))


def plan(
    profile: OperationProfile | None, *, trigger: str, turn: int, tokens: int, marks: Marks
) -> OperationPlan:
    """The plan of a run.

    `tokens`: estimated tokens of the conversation so far. `marks`: when each operation was done last.
    Cost: O(n log n) in the operations and their dependencies.
    """
    if profile is None or not profile.enabled:
        return OperationPlan()
    before, after = (
        tuple(
            Slot(
                operation=one,
                hook=hook,
                skipped=_skip_reason(one, trigger, turn, tokens, marks),
                counters=_counters(one, turn, tokens, marks),
            )
            for one in in_commit_order(o for o in profile.operations if hook in o.hooks)
        )
        for hook in HOOKS
    )
    return OperationPlan(before=before, after=after)


def _skip_reason(operation: Operation, trigger: str, turn: int, tokens: int, marks: Marks) -> str:
    if not operation.enabled:
        return "disabled"
    if trigger not in operation.triggers:
        return "trigger_mismatch"
    activation = operation.activation
    if activation is None:
        return ""
    turns, grown = _since(operation, turn, tokens, marks)
    return "" if activation.is_due(turns=turns, tokens=grown) else "not_due"


def _since(operation: Operation, turn: int, tokens: int, marks: Marks) -> tuple[int, int]:
    """Turns and tokens since an operation was done last, or has been counted."""
    last_turn, last_tokens = marks.get(operation.operation_id, (turn - 1, tokens))
    return turn - last_turn, tokens - last_tokens


def _counters(operation: Operation, turn: int, tokens: int, marks: Marks) -> dict[str, int]:
    activation = operation.activation
    if activation is None:
        return {}
    turns, grown = _since(operation, turn, tokens, marks)
    found = {"turns": turns, "tokens": grown}
    for name in ("every_n_turns", "every_n_context_tokens"):
        if (wanted := getattr(activation, name)) is not None:
            found[name] = wanted
    return found


def in_commit_order(operations: Iterable[Operation]) -> list[Operation]:
    """Dependencies first, then by `order`, then by id: the same however they ran."""
    table = {one.operation_id: one for one in operations}
    waits = {id_: {d for d in one.depends_on if d in table} for id_, one in table.items()}
    followers: dict[str, list[str]] = {id_: [] for id_ in table}
    for id_, needed in waits.items():
        for other in needed:
            followers[other].append(id_)
    ready = [(table[id_].order, id_) for id_, needed in waits.items() if not needed]
    heapq.heapify(ready)
    ordered: list[Operation] = []
    while ready:
        _, id_ = heapq.heappop(ready)
        ordered.append(table[id_])
        for follower in followers[id_]:
            waits[follower].discard(id_)
            if not waits[follower]:
                heapq.heappush(ready, (table[follower].order, follower))
    assert len(ordered) == len(table), "a stored profile has no cycles"
    return ordered


def update_marks(
    plan: OperationPlan, done: Iterable[Slot], *, turn: int, tokens: int, marks: Marks
) -> dict[str, tuple[int, int]]:
    """The marks that change: of what was done now, and of what is counted from now on."""
    counted = [slot for slot in (*plan.before, *plan.after) if slot.operation.activation is not None]
    changed = {slot.id: (turn - 1, tokens) for slot in counted if slot.id not in marks}
    for slot in done:
        if slot.operation.activation is not None:
            changed[slot.id] = (turn, tokens)
    return changed
