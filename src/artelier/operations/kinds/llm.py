"""The kind `llm`: one auxiliary question to a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, Literal

from pydantic import ConfigDict, Field

from artelier.operations.kinds.contract import OperationCall, OperationKind, OperationResult, Problem
from artelier.operations.kinds.model_question import AskingParams, ask, asking_problems, schema_problems
from artelier.operations.kinds.shared_values import make_found
from artelier.operations.profile.definition import TEMPLATE_CHARS_MAX


class LlmParams(AskingParams):
    """A prompt, and the form of the answer."""

    # `schema` is a method of pydantic's models; in data it is called that nevertheless.
    model_config = ConfigDict(serialize_by_alias=True)

    prompt: str = Field(min_length=1, max_length=TEMPLATE_CHARS_MAX)
    output: Literal["text", "json"] = "text"
    schema_: dict[str, Any] | None = Field(default=None, alias="schema")
    """JSON schema of the answer; only with `output` `json`."""


async def _run(call: OperationCall[LlmParams]) -> OperationResult:
    """Errors: those of `ask`; `too_large`."""
    params = call.params
    return make_found(
        await ask(call, prompt=params.prompt, schema=params.schema_, as_json=params.output == "json")
    )


def _problems(params: LlmParams) -> Iterable[Problem]:
    if params.schema_ is not None and params.output != "json":
        yield Problem(path="schema", code="bad_schema", message="a schema needs `output` to be `json`")
    yield from chain(asking_problems(params, prompt=params.prompt), schema_problems(params.schema_))


def prompts(params: AskingParams, prompt: str | None) -> Mapping[str, str]:
    """Return what a model is asked, by path."""
    asked = {"system": params.system, "prompt": prompt}
    return {path: text for path, text in asked.items() if text}


def _templates(params: LlmParams) -> Mapping[str, str]:
    return prompts(params, params.prompt)


KIND: OperationKind[LlmParams] = OperationKind(
    name="llm", params=LlmParams, run=_run, problems=_problems, templates=_templates
)
