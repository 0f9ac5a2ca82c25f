"""The reference of operations as a page, made from the forms of profiles and their docstrings.

Pure: forms and tables in, Markdown out. Nothing that runs a chat imports it.
"""

from __future__ import annotations

import ast
import inspect
import re
import types
from collections.abc import Iterable, Iterator
from decimal import Decimal
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from artelier.operations.kinds import KINDS, kind_named
from artelier.operations.profile import definition as forms
from artelier.operations.profile.operation_profile import OperationProfile
from artelier.operations.transforms import forms as transform_forms
from artelier.operations.transforms import steps

INTRODUCTION = (
    "# Reference of operations",
    "",
    "Generated from the declarations; `make docs` writes it, a test compares it. Begin with the"
    " [guide](guides/operations.md).",
    "",
    "A profile is a JSON object; a field that is not listed is a mistake. Texts that are called templates are"
    " Liquid and see the",
    "[names](#names-in-templates) below.",
    "",
)

MEANINGS: dict[str, str] = {
    "profile_id": "Names the profile, and its artifact.",
    "name": "What people see.",
    "ToolParams.name": "Of a tool that the chat has.",
    "max_tokens": "Of its text, estimated.",
    "kind": "One of the [kinds](#kinds).",
    "description": "For people.",
    "enabled": "False: the operation is skipped (`disabled`).",
    "execution_mode": "Whether operations that do not wait for each other run side by side.",
    "operations": "What stands around the main call.",
    "inclusions": "Rules for the prompt. An artifact for prompts without a rule stands at the tail.",
    "parallel_max": "Operations at work at once.",
    "operation_id": "Names the operation in `depends_on`, `deps` and results.",
    "required": "Before: unless done, no main call. After: unless done, the run failed.",
    "hooks": "When it runs: before the main call, after it, or both.",
    "triggers": "For which turns: new ones, new variants of one, or both.",
    "order": "After dependencies, smaller ones commit first.",
    "depends_on": "Ids of operations that must be done first, at the same hook.",
    "run_conditions": "All must hold, else it is skipped (`guard_not_matched`).",
    "activation": "How often it is due; `null`: always.",
    "debug": "For those who look for a mistake.",
    "type": "What sort of condition.",
    "key": "A flag of the guard's `output_contract`.",
    "operator": "What the flag must be.",
    "every_n_turns": "Turns since then.",
    "match": "With both: `all` must be reached, or `any`.",
    "when": "When the rule holds.",
    "trigger": "Only for such turns.",
    "place": "Around the system prompt, at the run's user message, before the n-th last message, or last.",
    "role": "Whose message it is. Beside the system prompt, `system` is a part of it, others are messages.",
    "priority": "What has less is left out first, if the prompt is too long.",
    "on_missing": "Without a value: leave it out, or fail.",
    "mode": "Where the text stands to what is there.",
    "text": "A template; `null`: the operation's value as text.",
    "depth_from_end": "How many messages stand behind it.",
    "blocks": "The parts.",
    "channel": "What sort of part.",
    "ui": "Whether people see it.",
    "tag": "A name like `^[a-z][a-z0-9_]{0,63}$`, no template.",
    "persistence": "In the session, or for this run alone.",
    "usage": "Who may see it; enforced.",
    "semantics": "What it is for: `state`, `log/feed`, `lore/memory`, `intermediate` or another word.",
    "write_mode": "`append`: each value is an entry, and the artifact is their list.",
    "retention": "How much of its past stays.",
    "effects": "What it changes.",
    "timeout_s": "Seconds until the operation is given up.",
    "template": "The template.",
    "strict": "Whether a name without a value is an error.",
    "output": "`json`: the text is parsed and must be JSON.",
    "prompt": "A template: what the model is asked.",
    "temperature": "Sampling; `null`: the model's own.",
    "top_p": "Sampling; `null`: the model's own.",
    "top_k": "Sampling, where the provider has it.",
    "min_p": "Sampling, where the provider has it.",
    "presence_penalty": "Sampling, where the provider has it.",
    "frequency_penalty": "Sampling, where the provider has it.",
    "seed": "Sampling, where the provider has it.",
    "thinking": "How much the model reasons; `null`: as it does by itself.",
    "verbosity": "How long an answer is, where the provider has it.",
    "service_tier": "How fast and how dear, where the provider has it.",
    "extra": "What only one provider knows, as its body has it.",
    "stop": "Texts that end the answer.",
    "max_output_tokens": "Of each answer; `null`: the model's own, and a cut answer is asked for once more.",
    "source": "Where to search.",
    "limit": "Passages at most.",
    "min_score": "Passages with less are left out; the best one has 1.",
    "documents": "Refs of artifacts.",
    "code": "Python for the sandbox; it sees [`ctx`](#what-ctx-offers).",
    "limits": "Time and memory.",
    "time_ms": "Milliseconds.",
    "memory_bytes": "Bytes.",
    "patch": "Operations `{op, path, value}`.",
    "pattern": "A pattern of Python's `re`.",
    "replace": "The text in its place; `\\1` is a group.",
    "path": "A JSON path.",
    "regex": "A pattern of Python's `re`.",
    "group": "Which group of the pattern, by number or name; 0: all of it.",
}
"""Of fields whose declaration says nothing, by name, or by form and name."""

TYPES: dict[str, str] = {
    "params": "the params of its [kind](#kinds)",
    "steps": "list of [steps](#steps-of-a-transform)",
    "place": "`system_prepend`, `system_append`, `after_last_user`, `before_last_user`, `depth(n)`, `tail`",
}
"""Of fields whose declaration is a pattern, or checked elsewhere."""

NAMES: tuple[tuple[str, str], ...] = (
    ("`text`", "The person's newest words; of a step of an agent, what the step is about."),
    ("`reply`", "The main call's text. Only after the main call."),
    ("`user`, `char`", "Who speaks: `name`, `description` and what a persona or card adds; prints as it."),
    ("`chat`", "`id`, `branch`, `turn` (from 1), `trigger` (`generate`, `regenerate`, `continue`)."),
    ("`run`", "`id`, `turn`, `trigger`."),
    (
        "`chat_history`",
        "The conversation up to and with the newest words: a list of `{role, content, name}`.",
    ),
    ("`messages`", "The same; after the main call with the reply."),
    (
        "`art`",
        "By tag: `art.<tag>.value`, `.version`, `.history`, earlier values with the newest first, and"
        " `.values`, all values with the newest last. Only artifacts that the reader may see.",
    ),
    ("`deps`", "By id: the values of the operations that this one depends on, however far."),
    ("`rag`", "By id: of those, the passages that `rag` found: a list of `{text, score, ref}`."),
    ("`now`", "The recorded time of the run: RFC 3339 text in UTC."),
    ("`value`", "The operation's value, in the texts of effects; the artifact's, in an inclusion."),
)
"""What templates see. Of `graph/template_scope.py` and of the operations above."""

CTX: tuple[tuple[str, str], ...] = (
    ("`ctx.text`, `ctx.reply`", "Texts; `reply` is None before the main call."),
    ("`ctx.user`, `ctx.char`, `ctx.chat`, `ctx.run`", 'Dicts: `ctx.user["name"]`.'),
    ("`ctx.chat_history`, `ctx.messages`", "Lists of dicts."),
    (
        '`ctx.art["tag"].value`, `.history`, `.version`',
        "An artifact; a tag that has no value yet is not in `ctx.art`.",
    ),
    ("`ctx.deps`, `ctx.rag`", "Dicts by operation."),
    ("`ctx.now`", "RFC 3339 text. The clock of the sandbox stands at it."),
    ("`random`", "Seeded: equal on a replay, different in another run."),
)
"""What `run(ctx)` of a `compute` gets."""

ERRORS: dict[str, str] = {
    "`bad_return`": 'Code with `returns: effects` gave something else than `{"value", "effects"}`.',
    "`code_error`": "The code raised.",
    "`code_invalid`": "The code is not in the language of the sandbox.",
    "`deadline`": "The time of the run was up.",
    "`dependency_failed`": "Required, and something that it depends on is not done.",
    "`effect_not_declared`": "Code asked for an effect that its params do not declare.",
    "`empty_prompt`": "The prompt rendered to no text.",
    "`invalid_effect`": "Code asked for what is no effect.",
    "`max_cost`": "A call could have cost more than `max_cost_usd`; it was not made.",
    "`memory`": "The code used more memory than its limit.",
    "`missing_input`": "A transform's `art.<tag>` has no value that it may read.",
    "`not_json`": "The value has no form as JSON.",
    "`output_invalid`": "The answer does not fit the schema, the contract or JSON, after all retries.",
    "`sandbox_failed`": "The sandbox itself failed.",
    "`tag_not_declared`": "Code asked for a tag that its params do not declare; nothing is committed.",
    "`template_error`": "Rendering ended early.",
    "`template_limit`": "A template reached a bound of steps or output.",
    "`template_undefined`": "A name has no value, in strict mode.",
    "`timeout`": "No result in the time of its params.",
    "`too_large`": "A value or text is over its bound.",
    "`unknown_kind`": "A plugin offers this kind, and this kernel does not allow it.",
    "`too_many_effects`": "Code asked for too many effects.",
    "`tool_error`": "What the tool said instead of a result, refusals included; its code is in `details`.",
    "`transform_error`": "A step cannot be applied to this value.",
    "`transform_no_match`": "`extract` found nothing.",
    "`transform_timeout`": "A pattern or a path took too long.",
    "`transform_too_large`": "What came in or out of a step is over its bound.",
    "`wrong_hook`": "Code asked for an effect that belongs to the other hook.",
}


Model = type[BaseModel]

STEPS: tuple[tuple[Model, type], ...] = (
    (transform_forms.JsonPatchForm, steps.JsonPatch),
    (transform_forms.RegexForm, steps.Regex),
    (transform_forms.CaseForm, steps.Case),
    (transform_forms.TrimForm, steps.Trim),
    (transform_forms.ExtractForm, steps.Extract),
)
"""Each form with the value whose docstrings describe it."""
_PLAIN: dict[Any, str] = {
    str: "text",
    int: "integer",
    float: "number",
    Decimal: "number",
    bool: "true or false",
    dict: "object",
    type(None): "null",
    Any: "JSON",
}


def operations_page() -> str:
    """Markdown: every field of a profile, its effects and kinds, the names in scope, the codes of errors."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield from INTRODUCTION
    yield from _section("Profile", OperationProfile)
    yield from _section("Operation", forms.OperationDefinition, forms.OperationConfig)
    for form in (forms.RunCondition, forms.Activation, forms.Debug):
        yield from _section(form.__name__, form, level=3)
    yield from _section("PromptInclusion", forms.PromptInclusion)
    yield from _section("When", forms.When, level=3)
    yield from ("## Effects", "", *_paragraph(_EFFECTS))
    for form in effect_forms():
        yield from _section(f"`{_tag(form, 'type')}`", form, level=3, skip=("type",))
    yield from _section("Retention", forms.Retention, level=3)
    yield from _section("ReplyBlock", forms.ReplyBlock, level=3)
    yield from ("## Kinds", "", *_paragraph(_KINDS))
    yield from _section("Params of every kind", forms.Params, level=3)
    told: list[Model] = []
    for name in KINDS:
        yield from _kind(name, told)
    yield from ("## Steps of a transform", "")
    for form, described in STEPS:
        yield from _section(f"`{_tag(form, 'op')}`", form, level=3, skip=("op",), described=described)
    yield from ("## Names in templates", "", *_table(("name", "is"), NAMES))
    yield from ("## What `ctx` offers", "", *_table(("name", "is"), CTX))
    yield from ("## Codes of errors", "", *_paragraph(_CODES))
    yield from _table(("code", "meaning"), sorted(ERRORS.items()))


_EFFECTS = (
    "`params.effects` of any kind. An operation writes at most one tag; its effects are applied when it is"
    " `done`, in the order of the list."
)
_KINDS = "`kind` of an operation says which of these `params` it has."
_CODES = (
    "What stands in `code` of an operation that ended as `error`, or of an effect that was not applied."
    " Errors of steps, such as `not_granted` or `price_unknown`, keep their codes. Mistakes in a profile have"
    " codes of their own: see [operations](guides/operations.md#what-is-refused)."
)


def effect_forms() -> tuple[Model, ...]:
    """The forms of all effects, in the order of their declaration."""
    union = get_args(forms.Effect)[0]
    return get_args(union)


def _kind(name: str, told: list[Model]) -> Iterator[str]:
    """Describe a kind and the forms of its own fields; each of these once, whatever kinds share it."""
    params: Model = kind_named(name).params
    yield from _section(f"Kind `{name}`", params, level=3, skip=tuple(forms.Params.model_fields))
    if errors := _errors(inspect.getmodule(params)):
        yield from _paragraph(f"Errors: {errors}")
    for form in _forms_below(params):
        if form not in told:
            told.append(form)
            yield from _section(form.__name__, form, level=3)


def _errors(module: types.ModuleType | None) -> str:
    """Return what the docstring of a kind's `_run` says of its errors."""
    run = getattr(module, "_run", None)
    _, found, rest = (inspect.getdoc(run) or "").partition("Errors: ")
    told = " ".join(rest.split()).replace("of `ask`", "of models that are asked (`empty_prompt`, `max_cost`)")
    return told if found else ""


def _forms_below(form: Model) -> list[Model]:
    """Forms that fields of a kind's own have."""
    own = (one.annotation for name, one in form.model_fields.items() if name not in forms.Params.model_fields)
    return [one for one in own if inspect.isclass(one) and issubclass(one, BaseModel)]


def _section(
    title: str, *models: Model, level: int = 2, skip: tuple[str, ...] = (), described: Any = None
) -> Iterator[str]:
    yield from (f"{'#' * level} {title}", "")
    if words := _prose(described or models[0]):
        yield from _paragraph(words)
    rows: list[tuple[str, ...]] = []
    for model in models:
        told = _docstrings(model) | (_docstrings(described) if described else {})
        for name, field in model.model_fields.items():
            if name not in skip:
                rows.append(_row(model, field.alias or name, field, told.get(name, "")))
    if rows:
        yield from _table(("field", "type", "default", "bounds", "meaning"), rows)


def _row(model: Model, name: str, field: FieldInfo, meaning: str) -> tuple[str, ...]:
    bounds = "; ".join((*_bounds(field.metadata), *_bounds_within(field.annotation)))
    meaning = meaning or MEANINGS.get(f"{model.__name__}.{name}") or MEANINGS.get(name, "")
    meaning = re.sub(r"\bNone\b", "`null`", meaning)
    type_ = TYPES.get(name) or _type(field.annotation)
    return (f"`{name}`", type_, _default(field), bounds, meaning)


def _type(annotation: object) -> str:
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    origin, given = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return "[effect](#effects)" if annotation == forms.Effect else _type(given[0])
    if origin is Literal:
        return ", ".join(f"`{one}`" for one in given)
    if origin in (Union, types.UnionType):
        return " or ".join(_type(one) for one in given)
    if origin in (tuple, list):
        return f"list of {_type(given[0])}"
    if origin is dict:
        return "object"
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        name = annotation.__name__
        return f"[{name}](#{name.lower()})"
    return "JSON"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value: Any = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, BaseModel):
        return "its defaults"
    if isinstance(value, tuple):
        items = cast("tuple[Any, ...]", value)
        if any(isinstance(one, BaseModel) for one in items):
            return "one with its defaults"
        return "`[" + ", ".join(f'"{one}"' for one in items) + "]`"
    if value is None:
        return "`null`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"


_SIGNS = (
    ("gt", "more than {}"),
    ("ge", "at least {}"),
    ("lt", "less than {}"),
    ("le", "at most {}"),
    ("min_length", "length at least {}"),
    ("max_length", "length at most {}"),
    ("pattern", "`{}`"),
)


def _bounds(metadata: Iterable[Any]) -> Iterator[str]:
    for one in metadata:
        for name, words in _SIGNS:
            bound = getattr(one, name, None)
            if bound is not None:
                shown = bound if isinstance(bound, str) else f"{bound:,.15g}"
                yield words.format(shown)


def _bounds_within(annotation: object) -> Iterator[str]:
    """Yield the bounds of the parts of a type: of a nullable type, or of each item of a list."""
    origin, given = get_origin(annotation), get_args(annotation)
    if origin is Annotated and annotation != forms.Effect:
        for one in given[1:]:
            yield from _bounds(one.metadata if isinstance(one, FieldInfo) else (one,))
    elif origin in (Union, types.UnionType):
        for one in given:
            yield from _bounds_within(one)
    elif origin in (tuple, list):
        yield from (f"each: {bound}" for bound in _bounds_within(given[0]))


def _tag(form: Model, name: str) -> str:
    return get_args(form.model_fields[name].annotation)[0]


def _prose(cls: type) -> str:
    """A docstring as one paragraph, without what concerns only code."""
    words = " ".join(inspect.cleandoc(cls.__dict__.get("__doc__") or "").split("\n\n")[0].split())
    return "" if re.match(r"^\w+\(", words) else words


@cache
def _docstrings(cls: type) -> dict[str, str]:
    """Return what stands under each field, those of parents included."""
    found: dict[str, str] = {}
    for one in reversed(cls.__mro__):
        if one.__module__.startswith("artelier."):
            found |= dict(_docstrings_of(one))
    return found


def _docstrings_of(cls: type) -> Iterator[tuple[str, str]]:
    tree = ast.parse(inspect.getsource(cls)).body[0]
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    for field, below in pairwise(body):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            yield field.target.id, " ".join(str(below.value.value).split())


def _paragraph(words: str) -> Iterator[str]:
    yield from (words, "")


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
    yield ""


__all__ = ["effect_forms", "operations_page"]
