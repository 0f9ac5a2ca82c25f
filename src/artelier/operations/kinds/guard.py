"""The kind `guard`: flags that conditions of other operations ask for, found by a template or by a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, cast

from pydantic import Field

from artelier.errors import ArtelierError, Conflict, Corrupt, Flow, StoreUnavailable
from artelier.operations.kinds.contract import (
    SHOWN_CHARS,
    OperationCall,
    OperationFailed,
    OperationKind,
    OperationResult,
    Problem,
    make_found,
    mistakes,
    parse_json,
    render_template,
)
from artelier.operations.kinds.llm import AskingParams, ask, asking_problems, prompts
from artelier.operations.profile.definition import TEMPLATE_CHARS_MAX

FLAGS_MAX = 32

Flag = Annotated[str, Field(pattern=r"^[a-z][A-Za-z0-9_]{0,63}$")]


class GuardParams(AskingParams):
    """Exactly one of `template` and `prompt` says how the flags are found."""

    output_contract: tuple[Flag, ...] = Field(min_length=1, max_length=FLAGS_MAX)
    """The flags, each true or false; no other comes out."""
    template: str | None = Field(default=None, max_length=TEMPLATE_CHARS_MAX)
    """Gives a JSON object of the flags; of a single flag `true` or `false` will do."""
    prompt: str | None = Field(default=None, max_length=TEMPLATE_CHARS_MAX)
    """Asks a model for them."""
    run_on_error: Literal["error", "all_false"] = "error"
    """`all_false`: a guard that fails is done, with every flag false; what failed is in its details."""


async def _run(call: OperationCall[GuardParams]) -> OperationResult:
    """Errors: those of templates and of `ask`; `output_invalid` for other flags than the contract's."""
    try:
        return make_found(await _flags(call))
    except (Flow, Conflict, Corrupt, StoreUnavailable):
        raise  # the run itself cannot go on
    except ArtelierError as error:
        if (harmless := fallback_of(call.params, error)) is None:
            raise
        return harmless


def fallback_of(params: GuardParams, error: ArtelierError) -> OperationResult | None:
    """Return what a guard that failed has found after all; None if its failure is an error."""
    if params.run_on_error != "all_false":
        return None
    told = {"code": error.code, "message": str(error)[:SHOWN_CHARS]}
    return make_found(dict.fromkeys(params.output_contract, False), details={"error": told})


async def _flags(call: OperationCall[GuardParams]) -> dict[str, bool]:
    params = call.params
    if params.template is None:
        schema = contract_schema(params.output_contract)
        answer = await ask(call, prompt=params.prompt or "", schema=schema)
        return _check_flags(params.output_contract, answer.value)
    text = render_template(params.template, call.scope.names, strict=params.strict).strip()
    if len(params.output_contract) == 1 and text.casefold() in ("true", "false"):
        return {params.output_contract[0]: text.casefold() == "true"}
    try:
        value = parse_json(text)
    except ValueError as error:
        raise OperationFailed(
            "output_invalid",
            f"the text of the guard's template is not JSON: {error}",
            expected=_format_expected(params.output_contract),
            details={"text": text[:SHOWN_CHARS]},
        ) from None
    return _check_flags(params.output_contract, value)


def contract_schema(flags: Iterable[str]) -> dict[str, Any]:
    """The JSON schema of an object of just these booleans."""
    names = list(flags)
    return {
        "type": "object",
        "properties": {name: {"type": "boolean"} for name in names},
        "required": names,
        "additionalProperties": False,
    }


def _check_flags(flags: tuple[str, ...], value: object) -> dict[str, bool]:
    """The flags in the order of the contract."""
    if not isinstance(value, dict):
        raise _against(flags, f"it is {type(value).__name__}")
    given = cast("dict[str, object]", value)
    for name in flags:
        if name not in given:
            raise _against(flags, f"{name} is missing")
        if not isinstance(given[name], bool):
            raise _against(flags, f"{name} is {type(given[name]).__name__}")
    if len(given) > len(flags):
        extra = sorted(set(given) - set(flags))
        raise _against(flags, f"{extra[0][:64]!r} is not in the contract")
    return {name: given[name] is True for name in flags}


def _against(flags: tuple[str, ...], why: str) -> OperationFailed:
    return OperationFailed(
        "output_invalid",
        f"the guard's answer is against its contract: {why}",
        expected=_format_expected(flags),
    )


def _format_expected(flags: tuple[str, ...]) -> str:
    return f"true or false for each of {', '.join(flags)}"


def _problems(params: GuardParams) -> Iterable[Problem]:
    if len(set(params.output_contract)) < len(params.output_contract):
        yield Problem(path="output_contract", code="duplicate_keys", message="a flag is declared twice")
    if (params.template is None) == (not params.prompt):
        yield Problem(
            path="template", code="bad_guard", message="a guard needs either a template or a prompt"
        )
    for path in ("system", "fallbacks", "tail", "media") if params.template is not None else ():
        if getattr(params, path) != GuardParams.model_fields[path].default:
            yield Problem(path=path, code="bad_guard", message="a template asks no model")
    yield from mistakes({"template": params.template})
    yield from asking_problems(params, prompt=params.prompt)


def _templates(params: GuardParams) -> Mapping[str, str]:
    return prompts(params, params.prompt)


def _keys(params: GuardParams) -> frozenset[str]:
    return frozenset(params.output_contract)


KIND: OperationKind[GuardParams] = OperationKind(
    name="guard",
    params=GuardParams,
    run=_run,
    problems=_problems,
    templates=_templates,
    keys=_keys,
    fallen=fallback_of,
)
