"""Calls from the sandbox to functions of the host: what goes in, what comes back, what is kept away."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from artelier.errors import (
    ArtelierError,
    Conflict,
    Corrupt,
    Flow,
    InvalidRequest,
    StoreUnavailable,
    VersionConflict,
)
from artelier.sandbox.protocol import HostCall
from artelier.sandbox.values_codec import NotData, data

MESSAGE_CHARS_MAX = 300

_PATH = re.compile(r"(?:[A-Za-z]:)?(?:[\\/][\w.@+~-]+){2,}[\\/]?")


async def answer_call(call: HostCall, function: Callable[..., Any], *, bytes_max: int) -> Mapping[str, Any]:
    """Call the host's function and say what the code inside shall see.

    Shapes: `{return_value}`, or `{exc_type, message}` for an exception that the code may catch.
    Errors: `InvalidRequest` if the function returns what is not JSON data (a fault of the host, so
    the run ends); flow exceptions, cancellation and other non-errors leave as they are.
    """
    try:
        args = data(list(call.args), bytes_max=bytes_max)
        kwargs = data(call.kwargs, bytes_max=bytes_max)
    except NotData as error:
        return {"exc_type": "TypeError", "message": f"{call.name}(): {error}"[:MESSAGE_CHARS_MAX]}
    try:
        value = function(*args, **kwargs)
        if inspect.isawaitable(value):
            value = await value
    except (Flow, Conflict, Corrupt, StoreUnavailable) as error:
        # The host itself can't go on; code that catches everything must not hide that.
        if not isinstance(error, VersionConflict):
            raise
        return {"exc_type": "RuntimeError", "message": clean_message(error, name=call.name)}
    # The wall: an exception of the host must not carry what it knows (paths, values, traces)
    # inside.
    except Exception as error:
        return {"exc_type": "RuntimeError", "message": clean_message(error, name=call.name)}
    try:
        return {"return_value": data(value, bytes_max=bytes_max)}
    except NotData as error:
        raise InvalidRequest(f"host function `{call.name}` gave the sandbox no JSON data: {error}") from None


def clean_message(error: Exception, *, name: str) -> str:
    """Return what sandboxed code may know of a host's exception.

    An `ArtelierError` for agents keeps its code and message, without anything like a path; of any
    other only the fact remains.
    """
    if isinstance(error, ArtelierError) and error.audience == "agent":
        return _PATH.sub("<path>", f"{error.code}: {error.message}")[:MESSAGE_CHARS_MAX]
    if isinstance(error, ArtelierError):
        return error.code
    return f"{name}() failed"
