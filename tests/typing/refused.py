"""What users must not write: every marked line here is a type error, or `make check` fails.

Each mark names the rule that refuses the line. If a line began to type-check, its mark would be
unnecessary, and that is an error in this file.
"""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from artelier.errors import ArtelierError, RunSuspended
from artelier.ids import RunId, TenantId
from artelier.money import format_usd, parse_usd
from artelier.ports.model import ChatMessage, ModelPort, ModelReply, ModelRequest, Usage


def wants_a_run(run_id: RunId) -> None: ...


def money_is_never_a_float_inside() -> None:
    format_usd(1.5)  # pyright: ignore[reportArgumentType]
    parse_usd(None)  # pyright: ignore[reportArgumentType]


def ids_are_not_exchanged(tenant: TenantId, text: str) -> None:
    wants_a_run(text)  # pyright: ignore[reportArgumentType]
    wants_a_run(tenant)  # pyright: ignore[reportArgumentType]


def facts_of_an_error_are_named() -> None:
    ArtelierError("no such thing", "an id")  # pyright: ignore[reportCallIssue]


def flow_is_not_caught_as_an_error(flow: RunSuspended) -> ArtelierError:
    return flow  # pyright: ignore[reportReturnType]


def values_are_frozen(message: ChatMessage, usage: Usage) -> None:
    message.content = "changed"  # pyright: ignore[reportAttributeAccessIssue]
    Usage(1, 2, 3)  # pyright: ignore[reportCallIssue]
    ChatMessage(role="robot")  # pyright: ignore[reportArgumentType]


class Deaf:
    """A model that cannot be awaited is no model."""

    def complete(self, request: ModelRequest, /) -> ModelReply:
        return ModelReply(text=request.model)


model: ModelPort = Deaf()  # pyright: ignore[reportAssignmentType]
