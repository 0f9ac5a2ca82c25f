"""Prompt artifacts: a template and the variables it declares, checked when saved, rendered when used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from artelier.artifacts.ref import safe_repr
from artelier.errors import InvalidArtifact, InvalidRequest
from artelier.world.mind_artifacts.template import MissingVariable, PromptTemplate, read_template

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
