"""The interface of a watcher: the kernel tells it runs, model and tool calls, and replayed steps.

A watcher only listens: it changes nothing, and what it raises is no error of the run
(`telemetry/export.py`). Without one the kernel makes no call at all. Read next: `telemetry/spans.py`,
the adapter to OpenTelemetry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from artelier.ports.model import ModelReply, ModelRequest, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """A run that was opened."""

    run_id: str
    tenant: str
    agent: str = ""
    """Id of the agent; empty for hand-written runs."""
    conversation: str = ""
    """Id of the chat that the run is a turn of; empty for others."""
    loop: str = ""
    parent: object = None
    """The run that this one is a child of, as it was given to `run_opened`."""
    is_resumed: bool = False
    """It has a past, and goes on."""
    is_replayed: bool = False
    """It takes no new steps: it has ended, or is only read."""
    is_detached: bool = False
    """It stays open beyond the code that opened it, so it is not what that code does from now on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """A model that is about to be called."""

    key: str
    model: str
    """Canonical name: `provider:model`, or that of a built-in."""
    request: ModelRequest
    """As the adapter gets it. Its messages are content: opt-in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseFacts:
    """A provider's response, as its adapter saw it."""

    id: str = ""
    """The provider's name of it; empty if it has none."""
    model: str = ""
    """The model that the provider says has answered."""
    first_piece_s: float | None = None
    """Seconds from the call to the first piece of the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFacts:
    """A tool that is about to be called, or whose call was refused."""

    key: str
    name: str
    """Empty for one that nobody registered: then the name is a model's word, which is content."""
    call_id: str = ""
    """The model's call that this answers."""
    arguments: Any = None
    """As they are stored. Content: opt-in."""


class CallSpan(Protocol):
    """One call, watched from its beginning to one outcome; what is told after that is ignored.

    `with span:` while the outside works; it may be entered again later, and leaving it is no outcome.
    """

    def __enter__(self) -> object: ...

    def __exit__(self, *_: object) -> None: ...

    def retried(self, *, attempt: int, code: str, wait_s: float, cost_microusd: int = 0) -> None:
        """An attempt failed in passing; another one follows. `attempt` 0 is that of a process that died.

        `cost_microusd`: what it was billed all the same, which no later call of this span says again.
        """
        ...

    def failed(self, code: str, *, usage: Usage | None = None, cost_microusd: int = 0) -> None:
        """It failed for good or was interrupted. `usage` and cost are what was billed all the same."""
        ...

    def left(self, status: str) -> None:
        """Its run is suspended while it is at work, which is no failure; `status` says how."""
        ...


class ModelSpan(CallSpan, Protocol):
    """A call of a model."""

    def asked_again(self) -> None:
        """The same request is sent once more after it was interrupted: a call of its own."""
        ...

    def completed(self, reply: ModelReply, /, *, cost_microusd: int, code: str = "") -> None:
        """A reply was recorded. `code`: why it is of no use, if it is not."""
        ...


@runtime_checkable
class RespondedSpan(Protocol):
    """A call of a model that is told of the provider's response, before its outcome."""

    def responded(self, facts: ResponseFacts) -> None: ...


class ToolSpan(CallSpan, Protocol):
    """A call of a tool."""

    def completed(self, result: bytes, /, *, code: str = "") -> None:
        """A result was recorded, as JSON. `code` if it is an error."""
        ...


@runtime_checkable
class Telemetry(Protocol):
    """A watcher. `run` is any object that stands for one opening of a run, from `run_opened` on.

    Its methods return at once, and are called from the thread of the run's event loop.
    """

    def run_opened(self, run: object, facts: RunFacts) -> None: ...

    def run_closed(self, run: object, *, status: str, code: str = "") -> None:
        """`status` as the run has it now; `code` says why if it failed."""
        ...

    def step_replayed(self, run: object, *, operation: str, key: str, code: str = "") -> None:
        """A recorded outcome was returned and nothing was called. `operation`: `chat`, `execute_tool`."""
        ...

    def model_call(self, run: object, facts: ModelFacts) -> ModelSpan: ...

    def tool_call(self, run: object, facts: ToolFacts) -> ToolSpan: ...


@runtime_checkable
class WatchesLag(Protocol):
    """A watcher that is also told how late the event loop of a server is."""

    def loop_lagged(self, seconds: float) -> None: ...


class SilentSpan:
    """A span of a call that nobody watches."""

    def __enter__(self) -> object:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def retried(self, *, attempt: int, code: str, wait_s: float, cost_microusd: int = 0) -> None:
        return None

    def failed(self, code: str, *, usage: Usage | None = None, cost_microusd: int = 0) -> None:
        return None

    def left(self, status: str) -> None:
        return None

    def asked_again(self) -> None:
        return None

    def responded(self, facts: ResponseFacts) -> None:
        return None

    def completed(self, outcome: ModelReply | bytes, /, *, cost_microusd: int = 0, code: str = "") -> None:
        return None


class SilentTelemetry:
    """A watcher that looks away. The kernel needs none (`None` is cheaper); to be built upon."""

    def run_opened(self, run: object, facts: RunFacts) -> None:
        return None

    def run_closed(self, run: object, *, status: str, code: str = "") -> None:
        return None

    def step_replayed(self, run: object, *, operation: str, key: str, code: str = "") -> None:
        return None

    def model_call(self, run: object, facts: ModelFacts) -> ModelSpan:
        return SilentSpan()

    def tool_call(self, run: object, facts: ToolFacts) -> ToolSpan:
        return SilentSpan()
