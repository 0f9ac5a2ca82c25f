"""The kind `transform`: declared steps over one artifact, the turn's text or a template."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import Field

from artelier.errors import InvalidRequest
from artelier.operations.kinds.contract import (
    OperationCall,
    OperationFailed,
    OperationKind,
    OperationResult,
    Problem,
    destination,
    make_found,
    mistakes,
    render_template,
    visible,
)
from artelier.operations.profile.definition import TEMPLATE_CHARS_MAX, Params

TURN_TEXT = "turn.text"
_ARTIFACT = re.compile(r"art\.([a-z][a-z0-9_]{0,63})")


class TransformParams(Params):
    """An input and what is done to it, one step after another."""

    input: str = Field(min_length=1, max_length=TEMPLATE_CHARS_MAX)
    """`art.<tag>`: its value as it is; `turn.text`: the person's words before the main call, the reply after
    it; anything with `{{` or `{%`: a template."""
    steps: tuple[Any, ...] = Field(min_length=1, max_length=64)
    """Steps of `transforming.parse_steps`."""
    strict: bool = True


async def _run(call: OperationCall[TransformParams]) -> OperationResult:
    """Errors: `missing_input`; those of templates and of steps; `not_json`, `too_large`."""
    from artelier.operations.transforms.transform import apply, parse_steps

    value = _input(call)
    return make_found(await apply(parse_steps(list(call.params.steps)), value))


def _input(call: OperationCall[TransformParams]) -> object:
    wanted, names = call.params.input, visible(call)
    if wanted == TURN_TEXT:
        return names["reply"] if "reply" in names else names["text"]
    if (tag := _ARTIFACT.fullmatch(wanted)) is None:
        return render_template(wanted, names, strict=call.params.strict)
    art: Mapping[str, Any] = names["art"]
    if tag[1] not in art:
        raise OperationFailed(
            "missing_input",
            f"there is no {wanted} that this operation may read",
            expected=", ".join(f"art.{name}" for name in art) or "an artifact with a value",
        )
    return art[tag[1]]["value"]


def _is_template(text: str) -> bool:
    return "{{" in text or "{%" in text


def _problems(params: TransformParams) -> Iterable[Problem]:
    from artelier.operations.transforms.transform import parse_steps

    if _is_template(params.input):
        yield from mistakes({"input": params.input})
    elif params.input != TURN_TEXT and not _ARTIFACT.fullmatch(params.input):
        yield Problem(
            path="input", code="bad_input", message="an input is art.<tag>, turn.text or a template"
        )
    try:
        parse_steps(list(params.steps))
    except InvalidRequest as error:
        listed: list[dict[str, str]] = error.facts.get("problems", [])
        for one in listed or [{"path": "", "message": str(error)}]:
            path = one["path"] if one["path"].startswith("[") else ""
            yield Problem(path=f"steps{path}", code="bad_steps", message=one["message"])


def _templates(params: TransformParams) -> Mapping[str, str]:
    in_prompt, _ = destination(params)
    text = _shows(params)
    return {"input": text} if in_prompt and text is not None else {}


def _shows(params: TransformParams) -> str | None:
    if params.input == TURN_TEXT:
        return None
    return params.input if _is_template(params.input) else f"{{{{ {params.input}.value }}}}"


KIND: OperationKind[TransformParams] = OperationKind(
    name="transform", params=TransformParams, run=_run, problems=_problems, templates=_templates, shows=_shows
)
