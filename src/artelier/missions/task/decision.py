"""The parser of replies: it returns a value of the asked form, or the mistakes; nothing is salvaged.

A reply must be one JSON value, the whole of it, of the right form. No code fence is removed, and the reply is
not searched for JSON. One repair names the mistakes; a second bad reply is final.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from artelier.context import cut
from artelier.errors import InvalidRequest
from artelier.kernel import FixedPart, ModelResult, Prompt, Run
from artelier.kernel.prompt.manifest import encode_json
from artelier.missions.definition import template
from artelier.ports.model import ChatMessage, ModelReply
from artelier.tokens import estimate_tokens

if TYPE_CHECKING:
    from pydantic import BaseModel

REPLY_CHARS_MAX = 200_000
"""Of a decision or a verdict; content has the limit of its steering."""

BAD_REPLY_TOKENS = 1_000
"""Of a reply that is shown again to be repaired."""

MISTAKES_CHARS = 2_000

ValueT = TypeVar("ValueT")
ModelT = TypeVar("ModelT", bound="BaseModel")


class InvalidDecision(Exception):
    """The mistakes of a reply, in words for the model that gave it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswer(Generic[ValueT]):
    """The answer of a model, after one repair at most."""

    value: ValueT | None
    """None if its last reply is not of the form."""
    result: ModelResult
    repaired: bool = False
    mistakes: str = ""
    """Of the last reply."""


def json_of(reply: ModelReply, *, chars_max: int = REPLY_CHARS_MAX) -> Any:
    """The one JSON value that a reply is. Errors: `InvalidDecision`."""
    if reply.tool_calls:
        raise InvalidDecision("it calls a tool by itself; tools are called through a decision")
    if len(reply.text) > chars_max:
        raise InvalidDecision(f"it has {len(reply.text)} characters; at most {chars_max} are read")
    if reply.finish_reason == "length":
        raise InvalidDecision("it was cut at the limit of its tokens; be shorter")
    if not reply.text.strip():
        raise InvalidDecision("it is empty")
    try:
        value = msgspec.json.decode(reply.text.encode())
        encode_json(value)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, InvalidRequest) as error:
        raise InvalidDecision(f"it is not one JSON value: {str(error)[:200]}") from None
    return value


def read_as(kind: type[ModelT], reply: ModelReply) -> ModelT:
    """A reply as a value of its form. Errors: `InvalidDecision` that names the first mistakes with their
    paths."""
    from pydantic import ValidationError

    from artelier.missions.definition import mistakes

    value = json_of(reply)
    try:
        return kind.model_validate(value, strict=True)
    except ValidationError as error:
        raise InvalidDecision(mistakes(error)[:MISTAKES_CHARS]) from None
    except RecursionError:
        raise InvalidDecision("it is nested too deep") from None


async def ask(
    run: Run,
    prompt: Prompt,
    *,
    key: str,
    model: str,
    read: Any,
    repair: str,
    form: type[BaseModel] | None = None,
    **params: Any,
) -> ModelAnswer[Any]:
    """Ask a model, and once again if its reply cannot be read by `read`.

    `form`: whose JSON schema the request names.
    Errors: those of `Run.step_model`.
    """
    output = None if form is None else _unvalidated_form(form)
    call: dict[str, Any] = {"model": model, "output": output, **params}
    first = await run.step_model(key=key, messages=prompt, **call)
    try:
        return ModelAnswer(value=read(_of(first)), result=first)
    except InvalidDecision as mistake:
        said = str(mistake)[:MISTAKES_CHARS]
    again = _repairing(prompt, _of(first), f"{template(repair)}\n\n{said}")
    second = await run.step_model(key=f"{key}/repair", messages=again, **call)
    try:
        return ModelAnswer(value=read(_of(second)), result=second, repaired=True)
    except InvalidDecision as mistake:
        said = str(mistake)[:MISTAKES_CHARS]
        return ModelAnswer(value=None, result=second, repaired=True, mistakes=said)


def _unvalidated_form(form: type[BaseModel]) -> type:
    """An output type with the schema of a form that takes any reply: its text alone decides what it is.

    Adapters take a fence off, and repairs are ours to ask for; so no step is recorded as a misfit.
    """

    def nothing(reply: ModelReply) -> None:
        return None

    members = {
        "model_json_schema": staticmethod(form.model_json_schema),
        "value_of_reply": staticmethod(nothing),
    }
    return type(form.__name__, (), members)


def _of(result: ModelResult) -> ModelReply:
    assert result.reply is not None
    return result.reply


def _repairing(prompt: Prompt, reply: ModelReply, said: str) -> Prompt:
    """The same prompt with the bad reply and what is wrong with it, before what is volatile."""
    bad = cut(reply.text, tokens=BAD_REPLY_TOKENS, where="middle") or "(nothing)"
    messages = (ChatMessage(role="assistant", content=bad), ChatMessage(role="user", content=said))
    part = FixedPart(
        tag="repair",
        messages=messages,
        stability="volatile",
        tokens=sum(estimate_tokens(message.text) for message in messages),
    )
    # Attached texts go to the last message: there must be none behind the repair.
    return Prompt(parts=(*prompt.parts, part), dropped=prompt.dropped, prices=prompt.prices)
