"""Prompt artifacts, checked when saved and rendered when used, and what prompts hold beside their text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple, TypeAlias, cast, get_args

from artelier.artifacts.ref import safe_repr
from artelier.context import Section, Source, fence
from artelier.errors import InvalidArtifact, InvalidConfig, InvalidRequest, NotFound
from artelier.ids import check_artifact_id
from artelier.world.mind_artifacts.template import (
    Clipped,
    MissingVariable,
    PromptTemplate,
    as_text,
    clip,
    read_template,
)

# --------------------------------------------------------------------------- artifact lookup
# The result of reading an artifact that an agent thinks with: its content, or the reason for having none.


Skip: TypeAlias = Literal["missing", "deleted", "denied", "no_funds", "failed", "too_dear"]
"""References are soft: none of these stops an agent. `failed`: it was there and of no use; `too_dear`: its
price was raised above what the agent has agreed to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """An artifact as it was read."""

    ref: str
    """With its version: `handbook@3`."""
    content: object
    trust: str = "untrusted"
    """`trusted` for what an agent may take as an instruction; of any other label text is fenced as data."""
    grant: str = ""


# --------------------------------------------------------------------------- builtin library
# The shipped prompts of `genesis_prompt_library` and the shipped workflow templates.


PROMPT_LIBRARY = "genesis_prompt_library"
WORKFLOW_TEMPLATES = "genesis_workflow_templates"

PROMPTS: tuple[str, ...] = tuple(
    "observe_base ideate_base implement_base reflect_base transition_base trading_base "
    "meta_learning error_recovery coordination_request resource_optimization artifact_design "
    "market_analysis intelligence_trading".split()
)
WORKFLOWS: tuple[str, ...] = ("build_cycle", "trader", "researcher", "coordinator", "observer")

_VERSION = 1


def prompt_library() -> dict[str, Any]:
    """Content of the artifact `genesis_prompt_library` of kind `library`."""
    return {"prompts": {name: shipped_prompt(name) for name in PROMPTS}}


def shipped_prompt(name: str) -> str:
    """The template of one shipped prompt, such as `ideate_base`. Errors: `NotFound`."""
    return _text("library", name, "md", PROMPTS)


def workflow_templates() -> dict[str, Any]:
    """Content of `genesis_workflow_templates`: `{workflows: {name: content of a workflow}}`."""
    return {"workflows": {name: shipped_workflow(name) for name in WORKFLOWS}}


def shipped_workflow(name: str) -> dict[str, Any]:
    """Content of an artifact of kind `workflow`, such as `build_cycle`. Errors: `NotFound`."""
    return cast("dict[str, Any]", json.loads(_text("workflows", name, "json", WORKFLOWS)))


@lru_cache(maxsize=64)
def _text(folder: str, name: str, ending: str, known: tuple[str, ...]) -> str:
    if name not in known:
        raise NotFound("nothing of this name is shipped", expected=", ".join(known), got=name[:80])
    path = files("artelier.world.mind_artifacts") / folder / f"{name}-{_VERSION}.{ending}"
    return path.read_text("utf-8").strip()


# --------------------------------------------------------------------------- prompt


BUILT_IN: tuple[str, ...] = tuple(
    "agent_id balance my_artifacts recent_memories last_action_result last_action_type "
    "last_action_success current_state available_states failure_count ticks_in_state tick".split()
)
"""Variables that every prompt of an agent in a world may use without declaring them."""

VARIABLES_MAX = 100
PARTS_MAX = 500
"""Prompts of one library."""

Type = Literal["any", "string", "integer", "number", "boolean", "array", "object"]

_TYPES: dict[str, tuple[type, ...]] = {
    "any": (object,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (dict,),
}
_ALIASES = {"text": "string", "str": "string", "int": "integer", "float": "number"} | {
    "bool": "boolean",
    "list": "array",
    "dict": "object",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A declared variable. Without a default its value must be given."""

    name: str
    type: Type = "any"
    default: object = None
    has_default: bool = False
    is_optional: bool = False
    """Without a value its placeholders stay as they are written: nothing is made up for them."""

    def check(self, value: object) -> None:
        """Errors: `InvalidRequest` for a value of another type."""
        fits = isinstance(value, _TYPES[self.type])
        if isinstance(value, bool) and self.type in ("integer", "number"):
            fits = False
        if not fits:
            raise InvalidRequest(
                f"the value of {{{self.name}}} has another type", expected=self.type, got=type(value).__name__
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptArtifact:
    """A prompt that can be rendered."""

    template: PromptTemplate
    variables: tuple[Variable, ...] = ()
    keeps_unknown: bool = False
    """Braces around a name without a value are text: plain text has no place to declare variables."""

    def render(self, values: Mapping[str, object]) -> str:
        """The prompt's text. `values` are JSON data; more of them than needed do no harm.

        Errors: `MissingVariable` naming what is missing; `InvalidRequest` for a value of another type.
        """
        known = dict(values)
        for variable in self.variables:
            if variable.name in known:
                variable.check(known[variable.name])
            elif variable.has_default:
                known[variable.name] = variable.default
        optional = {variable.name for variable in self.variables if variable.is_optional}
        if optional and not self.keeps_unknown:
            missing = [name for name in self.template.names if name not in {*known, *optional}]
            if missing:
                raise MissingVariable(missing[0])
        return self.template.render(known, keeps_unknown=self.keeps_unknown or bool(optional))


def read_prompt(content: object) -> PromptArtifact:
    """The prompt of an artifact of kind `prompt` or `personality`, or of a library's part.

    Shapes: text, or `{template, variables?: [name | {name, type?, default? | optional?, description?}]}`.
    Errors: `InvalidArtifact`, also for a placeholder that is neither built in nor declared.
    """
    given: dict[str, Any] = {"template": content} if isinstance(content, str) else _object(content)
    _only(given, ("template", "variables", "description"), "prompt")
    text = given.get("template")
    if not isinstance(text, str):
        raise InvalidArtifact("invalid template", expected="text", got=safe_repr(text))
    variables = _variables(given.get("variables") or [])
    template = read_template(text)
    declared = {variable.name for variable in variables}
    undeclared = [name for name in template.names if name not in declared | set(BUILT_IN)]
    if undeclared:
        raise InvalidArtifact(
            f"the template uses {{{undeclared[0]}}}, which is not declared",
            expected=f"a name in `variables`, or one of {', '.join(BUILT_IN)}",
            got=", ".join(undeclared)[:200],
            hint=f"Declare it, or write {{{{{undeclared[0]}}}}} if the braces are meant literally.",
        )
    return PromptArtifact(template=template, variables=variables)


def read_plain_prompt(text: str) -> PromptArtifact:
    """Read a prompt out of plain text: names that have no value stay as they are written.

    Errors: `InvalidArtifact` for a text that is too long or has too many placeholders.
    """
    return PromptArtifact(template=read_template(text), keeps_unknown=True)


def read_library(content: object) -> dict[str, PromptArtifact]:
    """The prompts of a library by name. Errors: `InvalidArtifact` naming the part that is wrong."""
    given = _object(content)
    prompts = given.get("prompts")
    if not isinstance(prompts, dict) or len(cast("dict[str, Any]", prompts)) > PARTS_MAX:
        raise InvalidArtifact(
            "invalid prompts",
            expected=f"an object of at most {PARTS_MAX}",
            got=safe_repr(cast("object", prompts)),
        )
    result: dict[str, PromptArtifact] = {}
    for name, part in cast("dict[str, Any]", prompts).items():
        try:
            result[name] = read_prompt(part)
        except InvalidArtifact as error:
            raise InvalidArtifact(
                f"prompts.{name[:80]}: {error.message}",
                expected=error.expected,
                got=error.got,
                hint=error.hint,
            ) from None
    return result


def _variables(given: object) -> tuple[Variable, ...]:
    if not isinstance(given, list | tuple) or len(cast("list[Any]", given)) > VARIABLES_MAX:
        raise InvalidArtifact(
            "invalid variables",
            expected=f"a list of at most {VARIABLES_MAX}",
            got=safe_repr(cast("object", given)),
        )
    variables = tuple(_variable(item) for item in cast("list[Any]", given))
    names = [variable.name for variable in variables]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InvalidArtifact(f"the variable {twice} is declared twice")
    return variables


def _variable(given: object) -> Variable:
    item: dict[str, Any] = {"name": given} if isinstance(given, str) else _object(given)
    _only(item, ("name", "type", "default", "optional", "description"), "variable")
    name = item.get("name")
    if not isinstance(name, str) or read_template(f"{{{name}}}").names != (name,):
        raise InvalidArtifact(
            "invalid name of a variable", expected="A-Z a-z 0-9 _, at most 64", got=safe_repr(name)
        )
    kind = _type(item.get("type", "any"), name)
    variable = Variable(
        name=name,
        type=kind,
        default=item.get("default"),
        has_default="default" in item,
        is_optional=item.get("optional") is True,
    )
    if item.get("optional", False) not in (True, False) or (variable.is_optional and variable.has_default):
        raise InvalidArtifact(
            f"the variable {name} is declared in two ways", expected="`default`, or `optional` true or false"
        )
    if variable.has_default:
        try:
            variable.check(variable.default)
        except InvalidRequest as error:
            raise InvalidArtifact(
                f"the default of {name} has another type", expected=kind, got=error.got
            ) from None
    return variable


def _type(given: object, name: str) -> Type:
    wanted = _ALIASES.get(given, given) if isinstance(given, str) else given
    for kind in get_args(Type):
        if wanted == kind:
            return kind
    raise InvalidArtifact(
        f"invalid type of the variable {name}", expected=", ".join(get_args(Type)), got=safe_repr(given)
    )


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidArtifact("invalid content", expected="text or a JSON object", got=safe_repr(value))
    return cast("dict[str, Any]", value)


def _only(given: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
    if unknown := sorted(set(given) - set(known)):
        raise InvalidArtifact(f"a {what} has no field {safe_repr(unknown[0])}", expected=", ".join(known))


# --------------------------------------------------------------------------- prompt fallback
# The choice of a prompt when a reference may dangle: the artifact, the inline one, or a shipped one.


INLINE = "inline"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenPrompt:
    """A prompt and where it is from."""

    prompt: PromptArtifact | None = None
    source: str = ""
    """A ref with its version, `inline`, or the name of the shipped prompt; empty without a prompt."""
    skipped: str = ""
    """Why the artifact does not stand: a `Skip`, or `broken: ...`. For the manifest."""

    @property
    def missing(self) -> bool:
        return self.prompt is None


def choose_prompt(
    reading: Reading | Skip | None, *, inline: str | None = None, shipped: str | None = None
) -> ChosenPrompt:
    """The prompt to render. Never raises for what agents wrote.

    Shapes: `reading` None: no artifact is named; `shipped` is a name of `genesis_prompt_library`, whose
    text of this release stands in even if a world has no such artifact.
    """
    skipped = ""
    if isinstance(reading, Reading):
        try:
            content = reading.content
            plain = read_plain_prompt(content) if isinstance(content, str) else read_prompt(content)
            return ChosenPrompt(prompt=plain, source=reading.ref)
        except InvalidArtifact as error:
            skipped = f"broken: {error.message}"[:200]
    elif reading is not None:
        skipped = reading
    if inline is not None:
        try:
            return ChosenPrompt(prompt=read_plain_prompt(inline), source=INLINE, skipped=skipped)
        except InvalidArtifact as error:
            skipped = skipped or f"broken: {error.message}"[:200]
    if shipped is not None:
        prompt = read_prompt(shipped_prompt(shipped))
        return ChosenPrompt(prompt=prompt, source=f"{PROMPT_LIBRARY}#{shipped}", skipped=skipped)
    return ChosenPrompt(skipped=skipped)


# --------------------------------------------------------------------------- subscriptions
# The parts of a prompt beside its own text: subscribed artifacts and the working memory.


MIN_SIZE_BYTES = 100
"""Below it a mark would say more than the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionLimits:
    """Settings of a world."""

    max_count: int = 5
    max_size_bytes: int = 2_000
    """Of one artifact's text in UTF-8, the mark of a cut included, heading and fence not."""

    def __post_init__(self) -> None:
        if self.max_count < 0 or self.max_size_bytes < MIN_SIZE_BYTES:
            raise InvalidConfig(
                "limits of subscriptions out of bounds",
                expected=f"max_count from 0, max_size_bytes from {MIN_SIZE_BYTES}",
                got=f"{self.max_count}, {self.max_size_bytes}",
            )


DEFAULT_LIMITS = SubscriptionLimits()


class Subscribed(NamedTuple):
    """The list after a change; `refused` says why it did not change."""

    ids: tuple[str, ...]
    refused: str = ""


def subscribe(
    ids: Sequence[object], artifact_id: str, *, limits: SubscriptionLimits = DEFAULT_LIMITS
) -> Subscribed:
    """Add an artifact, which may dangle. The one beyond `max_count` is refused; twice is once.

    Whether somebody may read an artifact that exists is to be asked before.
    """
    kept = known_ids(ids)
    try:
        check_artifact_id(artifact_id)
    except InvalidRequest as error:
        return Subscribed(kept, error.message)
    if artifact_id in kept:
        return Subscribed(kept, f"{artifact_id} is subscribed to already")
    if len(kept) >= limits.max_count:
        return Subscribed(
            kept, f"at most {limits.max_count} artifacts can be subscribed to; unsubscribe one first"
        )
    return Subscribed((*kept, artifact_id))


def unsubscribe(ids: Sequence[object], artifact_id: str) -> Subscribed:
    """Take an artifact off the list, also one that is gone."""
    kept = known_ids(ids)
    if artifact_id not in kept:
        return Subscribed(kept, f"{safe_repr(artifact_id)} is not subscribed to")
    return Subscribed(tuple(id_ for id_ in kept if id_ != artifact_id))


def known_ids(ids: Sequence[object]) -> tuple[str, ...]:
    """The ids of a stored list, each once, in order: such a list may have been written by hand."""
    return tuple(dict.fromkeys(id_ for id_ in ids if isinstance(id_, str)))


def wanted_ids(ids: Sequence[object], *, limits: SubscriptionLimits = DEFAULT_LIMITS) -> tuple[str, ...]:
    """Return which artifacts to read for a prompt: those that `subscribed_sections` will show or skip."""
    return known_ids(ids)[: limits.max_count]


def subscribed_sections(
    ids: Sequence[object],
    readings: Mapping[str, Reading | Skip],
    *,
    limits: SubscriptionLimits = DEFAULT_LIMITS,
) -> list[Section]:
    """A section for each subscribed artifact, in the order of the list; skipped ones say why.

    Shapes: `readings` by id, for the `wanted_ids`; an id without a reading counts as missing. Duplicates
    and those beyond `max_count`, which only a hand-written list has, are skipped too.
    """
    sections: list[Section] = []
    seen: set[str] = set()
    for id_ in ids:
        if not isinstance(id_, str):
            sections.append(_skipped_section(safe_repr(id_), "invalid"))
        elif id_ in seen:
            sections.append(_skipped_section(id_, "duplicate"))
        elif len(seen) >= limits.max_count:
            sections.append(_skipped_section(id_, "over_limit"))
        else:
            seen.add(id_)
            sections.append(_section(id_, readings.get(id_, "missing"), limits.max_size_bytes))
    return sections


def _section(id_: str, reading: Reading | Skip, limit_bytes: int) -> Section:
    if not isinstance(reading, Reading):
        return _skipped_section(id_, reading)
    if isinstance(reading.content, bytes):
        return _skipped_section(id_, "not_text")
    try:
        text = as_text(reading.content)
    except InvalidRequest:
        return _skipped_section(id_, "not_text")
    shown_text = _clip_text(text, reading, limit_bytes)
    return Section(
        tag=_tag(id_),
        text=f"## Subscribed: {id_}\n{shown_text}",
        stability="slow",
        truncation="drop",
        sources=(Source(ref=reading.ref, why="subscribed", grant=reading.grant),),
        trust=reading.trust,
        is_fenced=True,
    )


def _clip_text(text: str, reading: Reading, limit_bytes: int) -> str:
    if reading.trust == "trusted":
        return clip(text, limit_bytes=limit_bytes).text
    # Marks in the text are made harmless before it is measured, because that makes it longer.
    inside = fence(text, source="").partition("\n")[2].rpartition("\n")[0]
    inside = clip(inside, limit_bytes=limit_bytes).text
    return fence(inside, source=reading.ref, trust=reading.trust)


def _skipped_section(id_: str, why: str) -> Section:
    return Section(tag=_tag(id_), dropped=why, sources=(Source(ref=id_[:200], why="subscribed"),))


def _tag(id_: str) -> str:
    return f"subscribed:{id_[:200]}"


# --------------------------------------------------------------------------- working memory
# Working memory: what an agent keeps before its eyes, as text for the prompt and facts for conditions.


TEXT_BYTES_MAX = 2_000
ITEMS_MAX = 50
"""Lines of one list that are looked at; far more than fit."""

FACTS_MAX = 200

_PARTS = (("goal", "Goal"), ("progress", "Progress"), ("objectives", "Objectives"))
_LESSONS = ("lessons", "Lessons")


def memory_text(content: object, *, limit_bytes: int = TEXT_BYTES_MAX) -> Clipped:
    """Goal, progress, objectives and lessons as text within `limit_bytes` of UTF-8, the mark included.

    Shapes: `content` is text, or `{goal, progress, objectives, lessons, facts}`, each of them optional, each
    text, JSON or a list. The newest lessons stand first, since a cut takes the end. Never raises for content
    of any JSON shape; what is nothing gives empty text.
    """
    if isinstance(content, str):
        return clip(content.strip(), limit_bytes=limit_bytes)
    if not isinstance(content, Mapping):
        return Clipped("", False)
    given = cast("Mapping[str, object]", content)
    blocks = [_block(title, given.get(name)) for name, title in _PARTS]
    lessons = given.get(_LESSONS[0])
    if isinstance(lessons, list | tuple):
        lessons = cast("list[object]", lessons)[::-1]
    blocks.append(_block(_LESSONS[1], lessons))
    return clip("\n".join(block for block in blocks if block), limit_bytes=limit_bytes)


def memory_facts(content: object) -> dict[str, Any]:
    """The facts that an agent keeps of itself, for conditions; empty where there are none."""
    if not isinstance(content, Mapping):
        return {}
    facts = cast("Mapping[str, object]", content).get("facts")
    if not isinstance(facts, Mapping):
        return {}
    given = cast("Mapping[str, Any]", facts)
    return dict(list(given.items())[:FACTS_MAX])


def _block(title: str, value: object) -> str:
    if value is None or value == "" or value == [] or value == {}:
        return ""
    if isinstance(value, list | tuple):
        items = cast("list[object]", value)[:ITEMS_MAX]
        return "\n".join((f"{title}:", *(f"- {line}" for line in _lines(items))))
    return f"{title}: {_line(value)}"


def _lines(items: Iterable[object]) -> Iterable[str]:
    return (line for item in items if (line := _line(item)))


def _line(value: object) -> str:
    try:
        text = as_text(value)
    except InvalidRequest:
        return ""
    return " ".join(text[: 2 * TEXT_BYTES_MAX].split())
