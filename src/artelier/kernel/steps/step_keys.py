"""Keys and ids that the kernel makes: of steps, of the artifacts that runs write, and of tool calls.

Each step of a run has a key, given by its caller or by its place among its siblings. A result answers its
call by the id of the call, so none is empty or stands twice in a prompt.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256

import msgspec

from artelier.errors import AmbiguousStepKey, InvalidRequest, StepConflict
from artelier.kernel.prompt.request import MeasuredRequest
from artelier.ports.model import ModelReply, ToolCall


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


@dataclass(frozen=True, slots=True)
class SingleStep:
    """The progress of a `step` command in a run at work; by default no step was requested.

    A run of a built-in loop holds after its next cycle, a hand-written one after its next step. It holds at
    the boundary that follows, so a run that ends with that cycle simply ends.
    """

    command: int = 0
    """Seq of the command in force; 0 for none."""
    since: int = 0
    """Cycles or steps that this drive had done when it took effect."""
    holding: int = 0
    """Seq of the command whose cycle is done: the run is to be paused."""

    @classmethod
    def from_stored(cls, stored: int) -> SingleStep:
        """Return the state stored as a command's seq in the view, negative if its cycle is done already."""
        return cls(command=abs(stored), since=-1 if stored < 0 else 0)

    def is_over(self, done: int) -> bool:
        """Return True if the cycle that was asked for is done."""
        return bool(self.command) and done > self.since


ID_CHARS_MAX = 128
"""As `check_artifact_id` has it."""


def result_id(run_id: str, key: str) -> str:
    """The id of the artifact that holds a step's large result; no two steps share one."""
    if "/" in run_id or "/" in key:  # else run `a`, step `b/c` and run `a/b`, step `c` would
        pair = sha256(f"{len(run_id)}:{run_id}{key}".encode()).hexdigest()[:16]
        return f"runs/{id_part(run_id)}/{id_part(key)}/{pair}"
    return f"runs/{id_part(run_id)}/{id_part(key)}"


def id_part(text: str) -> str:
    """Text as a part of an artifact id: legal, bounded, and still unique."""
    clean = re.sub(r"[^A-Za-z0-9._:/-]+", "-", text).replace("::", ":")
    if clean == text and len(text) <= 56:
        return text
    return f"{clean[:39]}-{sha256(text.encode()).hexdigest()[:16]}"


def bounded_id(id_: str) -> str:
    """Return an id, or a part of it with a digest if it is too long."""
    if len(id_) <= ID_CHARS_MAX:
        return id_
    return f"{id_[: ID_CHARS_MAX - 17].rstrip('/.')}-{sha256(id_.encode()).hexdigest()[:16]}"


def notes_key(key: str, number: int) -> str:
    """Return the key of the step that takes notes in a cycle; one that is tried anew takes more.

    `number` counts from 1.
    """
    return key if number == 1 else f"{key}-{number}"


def next_key(key: str) -> str:
    """Return the key of what code asks for instead of a step on a path that is past: `KEY~2` and so on."""
    before, mark, number = key.rpartition("~")
    return f"{before}~{int(number) + 1}" if mark and number.isdecimal() else f"{key}~2"


def with_call_ids(reply: ModelReply, *, run_id: str, key: str, asked: MeasuredRequest) -> ModelReply:
    """Return the reply with an id of its own for each call.

    `asked` is what the model was sent. An id stays as the port gave it unless it is empty or taken;
    the new one is made of the run, the step and the call's place, so that it is the same in any process.
    """
    ids = {call.id for call in reply.tool_calls if call.id.strip()}
    if len(ids) == len(reply.tool_calls) and not any(map(asked.may_hold, ids)):
        return reply
    taken = {call.id for message in asked.request.messages for call in message.tool_calls}
    calls: list[ToolCall] = []
    for place, call in enumerate(reply.tool_calls):
        if not call.id.strip() or call.id in taken:
            call = msgspec.structs.replace(call, id=_made_id(run_id, key, place))
        taken.add(call.id)
        calls.append(call)
    if tuple(calls) == reply.tool_calls:
        return reply
    return msgspec.structs.replace(reply, tool_calls=tuple(calls))


def _made_id(run_id: str, key: str, place: int) -> str:
    """Return an id whose characters and length every provider accepts."""
    digest = sha256(f"{len(run_id)}:{run_id}{key}\0{place}".encode()).hexdigest()
    return f"call_{digest[:24]}"


def beside(key: str, other: str) -> bool:
    """Return True if two steps belong to different branches of one gather: none comes after the other."""
    left, right = key.split("/"), other.split("/")
    for index, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return index > 0 and left[index - 1].isdigit() and a.isdigit() and b.isdigit()
    return False
