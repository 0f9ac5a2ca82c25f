"""Structured output: the JSON schema of a type, and a reply's value of that type."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import msgspec

from artelier.errors import InvalidRequest, OutputInvalid
from artelier.kernel.steps.json_schema import TooMuchAtOnce, check_json, check_schema
from artelier.ports.model import ModelReply
from artelier.threads import run_in_content_thread

QUICK_CHARS_MAX = 64 * 1024
"""Of a reply that an event loop reads by itself: some milliseconds."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A reply's structured output, or why it does not fit."""

    output: Any = None
    misfit: OutputInvalid | None = None


async def fit_reply(reply: ModelReply, output: object, *, is_recorded: bool = False) -> Fitted:
    """Return what `value_of` says of a reply, found in a thread where that could take long.

    Others choose reply and schema; while a thread is at it the event loop goes on.
    """
    judge = partial(_fit_now, reply, output, is_recorded=is_recorded)
    if output is None or len(reply.text) <= QUICK_CHARS_MAX:
        with suppress(TooMuchAtOnce):
            return judge(quick=True)
    return await run_in_content_thread(len(reply.text), partial(judge, quick=False))


def fitted_at_once(reply: ModelReply, output: object) -> Fitted:
    """Return the same of a reply that was cut, which hardly ever fits, without a wait."""
    try:
        return _fit_now(reply, output, is_recorded=False, quick=True)
    except TooMuchAtOnce:
        text = "the reply was cut, and is too large to be checked"
        return Fitted(misfit=OutputInvalid(text, reply=reply))


def _fit_now(reply: ModelReply, output: object, *, is_recorded: bool, quick: bool) -> Fitted:
    try:
        return Fitted(value_of(reply, output, is_recorded=is_recorded, quick=quick))
    except OutputInvalid as error:
        return Fitted(misfit=error)


def schema_of(output: object, *, is_recorded: bool = False) -> dict[str, Any] | None:
    """JSON schema of `output`: None, a schema, a pydantic model, a dataclass, a Struct, a TypedDict, `str`.

    A schema that a step was recorded with is taken as it is.
    Errors: `InvalidRequest` for a type that has none, for a mapping that is no JSON schema, and for an
    instance of a class.
    """
    if output is None:
        return None
    if isinstance(output, Mapping):
        given = cast(Mapping[str, Any], output)
        return dict(given) if is_recorded else check_schema(given)
    is_model = hasattr(output, "model_json_schema")
    if is_model and not isinstance(output, type):
        raise InvalidRequest(
            "the output type is an instance",
            expected=f"the class {type(output).__name__}",
            got=repr(output)[:100],
            hint="Pass the class itself.",
        )
    if is_model:  # pydantic, without importing it
        return cast(Any, output).model_json_schema()
    try:
        return msgspec.json.schema(output)
    except (TypeError, msgspec.MsgspecError) as error:
        raise InvalidRequest(
            f"no JSON schema for this output type: {error}",
            expected="a JSON schema, a pydantic model, a dataclass, a Struct or a TypedDict",
            got=repr(output)[:100],
        ) from None


def value_of(reply: ModelReply, output: object, *, is_recorded: bool = False, quick: bool = False) -> Any:
    """The reply's structured output as `output`. A reply that calls tools has none yet: None.

    An output with `value_of_reply(reply)` takes any reply: what does not fit is then no misfit of the step.

    Where a text is asked for (`str`), a reply that is no JSON text is that text. What was recorded as
    fitting a schema is not checked by it again. `quick`: as in `check_json`.
    Errors: `OutputInvalid` that says what does not fit, with the reply in `facts["reply"]`.
    """
    try:
        return _value_of(reply, output, is_recorded=is_recorded, quick=quick)
    except OutputInvalid as error:
        error.facts["reply"] = reply
        raise


def _value_of(reply: ModelReply, output: Any, *, is_recorded: bool, quick: bool) -> object:
    if output is None:
        return reply.output
    if hasattr(output, "value_of_reply"):  # its caller judges the reply, as it came
        return output.value_of_reply(reply)
    if reply.tool_calls and reply.output is None:
        return None
    value = reply.output
    if _is_text(output) and not isinstance(value, str) and reply.text.strip():
        value = _text_of(reply.text)
    if value is None:
        try:
            value = msgspec.json.decode(reply.text)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise OutputInvalid(
                "the reply is not the JSON that was asked for",
                expected="one JSON value",
                got=f"{reply.text[:80]!r} ({error})",
            ) from None
    if isinstance(output, Mapping):
        schema = cast(Mapping[str, Any], output)
        return value if is_recorded else check_json(value, schema, quick=quick)
    try:
        if hasattr(output, "model_validate"):
            return output.model_validate(value)
        return msgspec.convert(value, output)
    except (msgspec.ValidationError, ValueError) as error:
        raise OutputInvalid(
            f"the structured output does not fit: {str(error)[:800]}",
            expected=getattr(output, "__name__", "the schema"),
        ) from None


def _is_text(output: object) -> bool:
    """Return True if a text is asked for, by type or by schema."""
    if isinstance(output, Mapping):
        return cast(Mapping[str, Any], output).get("type") == "string"
    return output is str


def _text_of(text: str) -> str:
    """The text within a JSON text; anything else is the text itself."""
    try:
        return msgspec.json.decode(text, type=str)
    except (msgspec.MsgspecError, UnicodeError):
        return text
