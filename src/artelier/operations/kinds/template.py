"""The kind `template`: one template, rendered once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from pydantic import Field

from artelier.operations.kinds.contract import (
    OperationCall,
    OperationKind,
    OperationResult,
    Problem,
    destination,
    evaluate_template,
    make_found,
    mistakes,
    visible,
)
from artelier.operations.profile.definition import TEMPLATE_CHARS_MAX, Params


class TemplateParams(Params):
    """`output` `json` parses the text; `strict` makes a name without a value an error."""

    template: str = Field(max_length=TEMPLATE_CHARS_MAX)
    strict: bool = True
    output: Literal["text", "json"] = "text"


async def _run(call: OperationCall[TemplateParams]) -> OperationResult:
    """Errors: those of templates; `output_invalid`, `too_large`."""
    params = call.params
    return make_found(
        evaluate_template(
            params.template, visible(call), strict=params.strict, as_json=params.output == "json"
        )
    )


def _problems(params: TemplateParams) -> Iterable[Problem]:
    return mistakes({"template": params.template})


def _templates(params: TemplateParams) -> Mapping[str, str]:
    in_prompt, _ = destination(params)
    return {"template": params.template} if in_prompt else {}


KIND: OperationKind[TemplateParams] = OperationKind(
    name="template",
    params=TemplateParams,
    run=_run,
    problems=_problems,
    templates=_templates,
    shows=lambda params: params.template,
)
