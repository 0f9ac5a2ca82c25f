"""What users may write: every line here type-checks under pyright's strict rules.

Nothing runs these files; `make check` reads them. Their opposite is `refused.py`.
"""

# pyright: strict

from __future__ import annotations

from decimal import Decimal
from typing import assert_type

from artelier.clock import Clock, SystemClock
from artelier.errors import ArtelierError, RateLimited, ReplayMismatch, RunSuspended
from artelier.ids import RunId, TenantId, check_run_id, check_tenant
from artelier.money import format_usd, parse_usd
from artelier.ports.model import ChatMessage, ModelPort, ModelReply, ModelRequest, Usage, message_from


def amounts_come_as_text_and_numbers() -> None:
    assert_type(parse_usd("5.00"), int)
    assert_type(parse_usd(Decimal("0.25")), int)
    assert_type(format_usd(parse_usd(5)), str)


def a_checked_id_is_a_type_of_its_own(text: str) -> None:
    assert_type(check_tenant(text), TenantId)
    assert_type(check_run_id(text), RunId)


def errors_carry_facts(error: ArtelierError) -> None:
    assert_type(error.code, str)
    if isinstance(error, RateLimited):
        assert_type(error.retry_after_s, float | None)
    if isinstance(error, ReplayMismatch):
        assert_type(error.section, str | None)


def a_suspended_run_is_no_error(flow: RunSuspended) -> None:
    assert_type(flow.status, str)


def messages_come_as_values_and_dicts() -> None:
    assert_type(message_from({"role": "user", "content": "hello"}), ChatMessage)
    assert_type(message_from(ChatMessage(role="user", content="hello")), ChatMessage)


def usage_adds_up(usage: Usage) -> None:
    assert_type(usage + usage, Usage)


class Echo:
    """A model is anything with this one method."""

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        return ModelReply(text=request.messages[-1].text)


model: ModelPort = Echo()
clock: Clock = SystemClock()
