"""The model calls that this process has at work, as the page shows them while they take their time."""

from __future__ import annotations

from artelier.kernel.run.services import Services
from artelier.ports.model import Sending
from artelier.server.wire.runs import CallAtWorkOut

CHARS_A_TOKEN = 4


def calls_at_work(services: Services, tenant: str, run_id: str, *, now_s: float) -> list[CallAtWorkOut]:
    """Return the calls of a run, oldest first; none of a run that another process drives."""
    driven = services.active.get((tenant, run_id))
    if driven is None:
        return []
    now_us = services.clock.now_us()
    return [_call(key, sent, now_s=now_s, now_us=now_us) for key, sent in [*driven.sendings.items()]]


def _call(key: str, sent: Sending, *, now_s: float, now_us: int) -> CallAtWorkOut:
    retry_us = sent.retry_at_us
    is_waiting = retry_us is not None
    return CallAtWorkOut(
        key=key,
        attempt=sent.attempt,
        elapsed_s=None if is_waiting else _since(sent.began_at_s, now_s),
        silent_s=None if is_waiting else _since(sent.last_at_s, now_s),
        first_piece_s=None if sent.first_piece_s is None else round(sent.first_piece_s, 3),
        output_tokens=-(-sent.piece_chars // CHARS_A_TOKEN),
        retry_in_s=None if retry_us is None else round(max(0, retry_us - now_us) / 1_000_000, 1),
    )


def _since(then_s: float | None, now_s: float) -> float | None:
    return None if then_s is None else round(max(0.0, now_s - then_s), 1)
