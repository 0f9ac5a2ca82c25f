"""Asking a tool's probe what became of a call, and reading its answer."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Literal

from artelier.errors import ToolFailed
from artelier.kernel.steps.failures import is_own, words
from artelier.ports.tool import Happened, ToolPort, not_happened, unsure

PROBE_TIMEOUT_S = 60.0
"""For the probe of a tool without a timeout of its own; a probe that hangs cannot tell."""

REDISPATCHES_MAX = 3
"""How often a step is entered again because its probe says that it has not happened."""

MAY_LAND = (
    "The probe says that the call has not happened, but it may still: it is not known that the process which"
    " made it has ended."
)
NOT_OURS = (
    "The probe says that the call has not happened, but it is a call of the run that this was forked from,"
    " which may make it as well."
)
TOO_OFTEN = f"The probe has said {REDISPATCHES_MAX} times that the call has not happened."


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """The answer of a probe."""

    answer: Literal["happened", "failed", "not_happened", "unsure"]
    value: Any = None
    """The result of a call that happened; the `ToolFailed` of one that failed."""
    error: str = ""
    """Why the probe cannot tell, if it raised."""


async def ask_probe(tool: ToolPort, key: str, arguments: dict[str, Any]) -> Probed:
    """Ask what became of the call with this idempotency key. A tool without a probe is unsure."""
    if tool.probe is None:
        return Probed(answer="unsure")
    timeout_s = tool.timeout_s or PROBE_TIMEOUT_S
    limit = asyncio.timeout(timeout_s)
    try:
        async with limit:
            answer = await tool.probe(key, arguments)
    except ToolFailed as error:
        return Probed(answer="failed", value=error)
    except asyncio.CancelledError as error:
        if not is_own(error):
            raise
        return Probed(answer="unsure", error="CancelledError: the probe was cancelled from within")
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # whatever went wrong: it cannot tell
        if limit.expired():
            return Probed(answer="unsure", error=f"the probe gave no answer within {timeout_s:g} s")
        return Probed(answer="unsure", error=f"{type(error).__name__}: {words(error)[:1000]}")
    if answer is unsure:
        return Probed(answer="unsure")
    if answer is not_happened:
        return Probed(answer="not_happened")
    return Probed(answer="happened", value=answer.result if isinstance(answer, Happened) else answer)
