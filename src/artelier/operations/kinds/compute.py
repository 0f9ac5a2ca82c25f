"""The kind `compute`: a function `run(ctx)` of the context, in the sandbox."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, cast

from pydantic import Field

from artelier.artifacts.kinds import check_entry
from artelier.errors import InvalidArtifact, InvalidRequest
from artelier.operations.kinds.contract import (
    OperationCall,
    OperationFailed,
    OperationKind,
    OperationResult,
    Problem,
    make_found,
)
from artelier.operations.profile.definition import VALUE_BYTES_MAX, Form, Params
from artelier.operations.template_engine.values import Messages, Named
from artelier.ports.sandbox import SandboxLimits
from artelier.sandbox import SandboxError, check_code
from artelier.sandbox.dialect_check import CODE_BYTES_MAX

MEBIBYTE = 1024 * 1024

# Behind the code, so that its lines keep their numbers and its own names do not count any more.
_CALL = """

class _Part:
    def __init__(self, value, history, version):
        self.value = value
        self.history = history
        self.version = version

class _Context:
    def __init__(self, names):
        for name in names:
            setattr(self, name, names[name])
        art = {}
        for tag in names["art"]:
            one = names["art"][tag]
            art[tag] = _Part(one["value"], one["history"], one["version"])
        self.art = art

run(_Context(_names))"""

_CODES = {
    "syntax": "code_invalid",
    "unsupported": "code_invalid",
    "error": "code_error",
    "timeout": "timeout",
    "memory": "memory",
    "output": "not_json",
    "crashed": "sandbox_failed",
}
"""Of the sandbox's reasons."""

_TOO_LONG = re.compile(r"more than \d+ bytes")


class ComputeLimits(Form):
    """The functions that the code may use."""

    time_ms: int = Field(default=1_000, ge=1, le=10_000)
    memory_bytes: int = Field(default=64 * MEBIBYTE, ge=MEBIBYTE, le=512 * MEBIBYTE)


class ComputeParams(Params):
    """Code with a function `run(ctx)`; its value is JSON."""

    code: str = Field(min_length=1, max_length=CODE_BYTES_MAX)
    limits: ComputeLimits = ComputeLimits()
    returns: Literal["value", "effects"] = "value"
    """`effects`: the function returns `{"value", "effects": [...]}`, and effects of its params do nothing."""


async def _run(call: OperationCall[ComputeParams]) -> OperationResult:
    """The same names, code and seed give the same value; `random` is seeded, and the clock stands at `now`.

    Errors: `code_invalid`, `code_error`, `timeout`, `memory`, `too_large`, `not_json`, `sandbox_failed`;
    `bad_return` for what is no value with effects.
    """
    params = call.params
    names: dict[str, Any] = {"deps": {}, "reply": None}
    names.update((name, _plain(value)) for name, value in call.scope.names.items())
    limits = SandboxLimits(
        time_ms=params.limits.time_ms,
        memory_bytes=params.limits.memory_bytes,
        output_bytes=2 * VALUE_BYTES_MAX,
    )
    try:
        result = await call.desk.sandbox.run(
            params.code + _CALL,
            inputs={"_names": names},
            limits=limits,
            at_us=_moment_us(names.get("now")),
            seed=call.seed,
        )
    except SandboxError as error:
        raise _failure(error) from None
    except InvalidRequest as error:  # what it should see does not fit in
        raise OperationFailed("too_large", str(error)[:1_000]) from None
    return make_found(result.value) if params.returns == "value" else _with_effects(result.value)


def _plain(value: object) -> object:
    """Return what only templates know, as JSON data."""
    if isinstance(value, Named):
        return {"name": value.name, **value.fields}
    return list(cast("list[Any]", value)) if isinstance(value, Messages) else value


def _moment_us(now: object) -> int:
    """Microseconds since 1970 of the run's recorded time."""
    moment = datetime.fromisoformat(str(now))
    return int(moment.timestamp()) * 1_000_000


def _failure(error: SandboxError) -> OperationFailed:
    code = _CODES[error.reason]
    if error.reason == "output" and _TOO_LONG.search(error.message):
        code = "too_large"
    return OperationFailed(code, str(error)[:1_000], details={"line": error.line})


def _with_effects(returned: object) -> OperationResult:
    """Return what code with effects of its own gives; whether it may have them is decided at the commit."""
    given = cast("dict[str, Any]", returned) if isinstance(returned, dict) else {}
    effects = given.get("effects")
    if set(given) != {"value", "effects"} or not isinstance(effects, list):
        raise _bad_return('{"value": ..., "effects": [...]}', given)
    listed = cast("list[Any]", effects)
    if not all(isinstance(one, dict) for one in listed):
        raise _bad_return("a list of objects as `effects`", given)
    make_found({"value": given["value"], "effects": listed})  # together they are stored
    return OperationResult(value=given["value"], effects=tuple(cast("list[Mapping[str, Any]]", listed)))


def _bad_return(expected: str, given: Mapping[str, Any]) -> OperationFailed:
    got = f"an object of {', '.join(list(given)[:5])}"[:200] if given else "something else"
    return OperationFailed("bad_return", "the function's value has another form", expected=expected, got=got)


def _problems(params: ComputeParams) -> Iterable[Problem]:
    problems = check_code(params.code)
    for problem in problems:
        yield Problem(path="code", code="bad_code", message=str(problem))
    if problems:
        return
    try:
        check_entry(params.code, entry="run", positional=("ctx",))
    except InvalidArtifact as error:
        yield Problem(path="code", code="bad_code", message=str(error))


KIND: OperationKind[ComputeParams] = OperationKind(
    name="compute", params=ComputeParams, run=_run, problems=_problems
)
