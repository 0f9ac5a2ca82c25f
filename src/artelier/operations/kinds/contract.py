"""The contract of an operation kind: the form of its params, what is known in advance, and how it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec

from artelier.artifacts import Artifact
from artelier.artifacts.content import check_json
from artelier.errors import ArtelierError, InvalidArtifact
from artelier.kernel import Run
from artelier.kernel.prompt.manifest import UNENCODABLE, canonical
from artelier.operations.profile.definition import (
    VALUE_BYTES_MAX,
    ArtifactUpsert,
    AssistantBlocks,
    AssistantPatch,
    Operation,
    Params,
    UserVariant,
)
from artelier.ports.media import Medium

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
    attachments: tuple[Medium, ...] = ()
    """What the newest words came with."""
    shown: Mapping[str, Sequence[tuple[str, Medium]]] = field(
        default_factory=dict[str, Sequence[tuple[str, Medium]]]
    )
    """What tools have shown, each with the name for prompts, by operation that this one waits for."""

    def shown_in_prompt(self, operation: str) -> Sequence[tuple[str, Medium]]:
        """Return what an operation has shown; nothing of one whose value no prompt may show (I9)."""
        is_hidden = operation in self.unseen.get("prompt", frozenset())
        return () if is_hidden else self.shown.get(operation, ())

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
    media: tuple[Medium, ...] = ()
    """What a tool has shown beside its value; a prompt that the operation adds to shows it, too."""


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


SHOWN_CHARS = 500
"""Of a model's text or a value, in the details of an error."""

_FENCE = "```"
LANGUAGE_CHARS_MAX = 20
"""Of the word behind an opening fence."""


def render_template(template: str, names: Mapping[str, Any], *, strict: bool = True) -> str:
    """The text of a template over these names. Errors: those of `Template`."""
    from artelier.operations.template_engine.template import Template

    return Template.parse(template, strict=strict).render(names)


def mistakes(templates: Mapping[str, str | None]) -> Iterator[Problem]:
    """Return what is wrong with templates, by path."""
    from artelier.operations.template_engine.template import Template

    for path, template in templates.items():
        if template is None:
            continue
        try:
            Template.parse(template)
        except ArtelierError as error:
            yield Problem(path=path, code=error.code, message=str(error))


def destination(params: Params) -> tuple[bool, bool]:
    """Return whether the value goes into `(prompts, what people see)`: as it is, or in a text made with
    it.
    """
    in_prompt = in_ui = False
    for effect in params.effects:
        match effect:
            case ArtifactUpsert():
                is_shown = _has_value(effect.value)
                in_prompt |= is_shown and effect.in_prompt
                in_ui |= is_shown and effect.in_ui
            case AssistantBlocks():
                blocks = [block for block in effect.blocks if _has_value(block.text)]
                in_prompt |= any(block.prompt for block in blocks)
                in_ui |= any(block.ui for block in blocks)
            case _:
                is_shown = _has_value(effect.text)
                in_prompt |= is_shown
                # What is said is read by people, and stands in later prompts.
                in_ui |= is_shown and isinstance(effect, UserVariant | AssistantPatch)
    return in_prompt, in_ui


def _has_value(template: str | None) -> bool:
    """Return True if the text of an effect is the operation's value, or made with it."""
    if template is None:
        return True
    try:
        return any(path[0] == "value" for path in paths_in(template))
    except ArtelierError:
        return False  # it does not parse, which is told elsewhere


def paths_in(template: str) -> frozenset[tuple[str, ...]]:
    """Return what a template may read. Errors: `InvalidTemplate`."""
    from artelier.operations.template_engine.template import Template

    return Template.parse(template).paths()


async def read_artifact(call: OperationCall[Any], ref: str, *, price_max: int = 0) -> Artifact:
    """Return an artifact as the operation's principal may read it.

    Errors: `NotFound`, `AccessDenied`, also for one that costs more than agreed.
    """
    return await call.desk.as_principal(call.principal).artifacts.read(ref, price_max=price_max)


def visible(call: OperationCall[Any]) -> Mapping[str, Any]:
    """The names for a template whose text is the operation's value: those that may stand where it goes."""
    in_prompt, in_ui = destination(call.params)
    return call.scope.names_for(prompt=in_prompt, ui=in_ui)


def parse_json(text: str) -> Any:
    """The JSON value of a text; a code fence around it is forgiven, but nothing else.

    Errors: `ValueError` that says why it is none.
    """
    try:
        return _decode(text)
    except ValueError:
        fenced = _find_fenced(text)
        if fenced is None:
            raise
        return _decode(fenced)


def _find_fenced(text: str) -> str | None:
    """Return what stands in the only code fence of a text. Cost: O(length)."""
    parts = text.split(_FENCE, 3)
    if len(parts) != 3:
        return None
    language, line_end, content = parts[1].partition("\n")
    return content if line_end and len(language) <= LANGUAGE_CHARS_MAX else None


def _decode(text: str) -> object:
    if not text.strip():
        raise ValueError("the text is empty")
    try:
        value = msgspec.json.decode(text)
        check_json(value)  # no integers without end, for one: what cannot be stored is no JSON here
    except (*UNENCODABLE, InvalidArtifact) as error:
        raise ValueError(f"not JSON: {str(error)[:200]}") from None
    return value


def make_found(value: object, *, details: Mapping[str, Any] | None = None) -> OperationResult:
    """A value that was found. Errors: `OperationFailed`: `not_json`, `too_large`."""
    try:
        size = len(canonical(value))
        check_json(value)
    except (*UNENCODABLE, InvalidArtifact) as error:
        raise OperationFailed("not_json", f"the value has no form as JSON: {str(error)[:200]}") from None
    if size > VALUE_BYTES_MAX:
        raise OperationFailed(
            "too_large",
            "the value of an operation is too large",
            expected=f"at most {VALUE_BYTES_MAX:,} bytes",
            got=f"{size:,}",
        )
    return OperationResult(value=value, details=details)


def evaluate_template(template: str, names: Mapping[str, Any], *, strict: bool, as_json: bool) -> Any:
    """Return what a template gives: its text, or the JSON that this text is.

    Errors: those of `Template`; `OperationFailed` with `output_invalid` for what is no JSON.
    """
    text = render_template(template, names, strict=strict)
    if not as_json:
        return text
    try:
        return parse_json(text)
    except ValueError as error:
        raise OperationFailed(
            "output_invalid",
            f"the text of the template is not JSON: {error}",
            expected="one JSON value",
            got=f"{len(text)} characters",
            details={"text": text[:SHOWN_CHARS]},
        ) from None


def text_of(value: object) -> str:
    """Return a value as a prompt or a reply shows it: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
