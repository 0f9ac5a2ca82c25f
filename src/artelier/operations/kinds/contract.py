"""The contract of an operation kind: the form of its params, what is known in advance, and how it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from artelier.errors import ArtelierError
from artelier.kernel import Run
from artelier.operations.profile.definition import Operation, Params

ParamsT = TypeVar("ParamsT", bound=Params)


class OperationFailed(ArtelierError):
    """An operation has no value. `code` is stable and stands in its result."""

    def __init__(
        self, code: str, message: str, *, details: Mapping[str, Any] | None = None, **facts: Any
    ) -> None:
        super().__init__(message, **facts)
        self.code = code  # pyright: ignore[reportAttributeAccessIssue] - one class, many stable codes
        self.details = details


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationScope:
    """The scope of an operation: plain data, the same on every replay."""

    names: Mapping[str, Any]
    """`user`, `char`, `chat`, `chat_history`, `messages`, `art`, `rag`, `now`, `run`, and after the main call
    `reply`. `art` is `{tag: {"value", "history", "version"}}`, `now` is RFC 3339 text."""
    in_prompt: frozenset[str]
    """Tags that a prompt may show."""
    in_ui: frozenset[str] = frozenset()
    """Tags that people may see."""
    unseen: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """Operations whose values `deps` and `rag` may not show, by reader (`prompt`, `ui`)."""

    def for_prompt(self) -> Mapping[str, Any]:
        """The names for a text that goes into a prompt: without artifacts that no prompt may show (I9)."""
        return self.names_for(prompt=True)

    def names_for(self, *, prompt: bool = False, ui: bool = False) -> Mapping[str, Any]:
        """The names for a text that goes into a prompt, to people, or both."""
        art: Mapping[str, Any] = self.names["art"]
        tags, hidden = set(art), frozenset[str]()
        if prompt:
            tags &= self.in_prompt
            hidden |= self.unseen.get("prompt", frozenset())
        if ui:
            tags &= self.in_ui
            hidden |= self.unseen.get("ui", frozenset())
        names = {**self.names, "art": {tag: art[tag] for tag in art if tag in tags}}
        for name in ("deps", "rag") if hidden else ():
            values: Mapping[str, Any] = names.get(name, {})
            names[name] = {id_: values[id_] for id_ in values if id_ not in hidden}
        return names


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationCall(Generic[ParamsT]):
    """One execution of an operation."""

    run: Run
    """A branch of the run: steps made with it have keys of their own below the operation's."""
    operation: Operation
    params: ParamsT
    scope: OperationScope
    model: str
    """The chat's model, for operations that name none."""
    principal: str
    """In whose name artifacts are read."""
    seed: int
    """For chance: the same on every replay of this run, another in another run."""
    desk: Any = None
    """The kernel bound to the run's tenant (`TenantKernel`), where artifacts and memories are. None in a
    replay, in which nothing asks it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationResult:
    """The result of an operation."""

    value: Any
    """JSON."""
    effects: tuple[Mapping[str, Any], ...] | None = None
    """Effects that the operation itself asks for, as data; None: those of its params."""
    details: Mapping[str, Any] | None = None
    """JSON for people, kept beside the value: what went wrong and was passed over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One mistake in the params of an operation."""

    path: str
    """Inside params, such as `prompt` or `schema.properties`."""
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationKind(Generic[ParamsT]):
    """A kind of operation."""

    name: str
    params: type[ParamsT]
    run: Callable[[OperationCall[ParamsT]], Awaitable[OperationResult]]
    """Errors: `OperationFailed`, and whatever a step raises; Flow (pause, cancel, budget) passes through."""
    problems: Callable[[ParamsT], Iterable[Problem]] = lambda _: ()
    """Mistakes that the form does not show: a template that does not parse, a bad schema."""
    templates: Callable[[ParamsT], Mapping[str, str]] = field(default=lambda _: {})
    """Templates by path whose text goes into a prompt; those of effects are known without it."""
    shows: Callable[[ParamsT], str | None] = lambda _: None
    """The template whose text is the value, or what it is made of; None for a kind that has none."""
    keys: Callable[[ParamsT], frozenset[str]] = field(default=lambda _: frozenset[str]())
    """Flags that run conditions may ask for."""
    fallen: Callable[[ParamsT, ArtelierError], OperationResult | None] = lambda _, __: None
    """What one whose time is up has found all the same; None: nothing, so it failed."""
