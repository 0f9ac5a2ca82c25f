"""Hostile code gets nothing, stops in time and leaves the pool usable."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from artelier.sandbox import MontySandbox, SandboxError
from tests.sandbox.conftest import LIMITS

from .attempts import BOMBS, ESCAPES, HARMLESS, Attempt

CANARY = "canary-8c1f"


def helper(*args: object, **kwargs: object) -> None:
    """A function of the host."""


def test_corpus_is_large_enough():
    assert len(ESCAPES) >= 60
    assert len(BOMBS) >= 60


@pytest.mark.parametrize("attempt", ESCAPES, ids=lambda attempt: attempt.name)
def test_escape_gets_nothing_of_the_host(
    sandbox: MontySandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attempt: Attempt
):
    secret = tmp_path / "secret.txt"
    secret.write_text(CANARY)
    monkeypatch.setenv("ARTELIER_CANARY", CANARY)
    code = attempt.code.format(canary=secret)

    try:
        result = asyncio.run(sandbox.run(code, functions={"helper": helper}))
    except SandboxError as error:
        outcome = str(error)
        assert attempt.name not in HARMLESS
    else:
        outcome = repr(result)
        assert result.value == HARMLESS[attempt.name]

    assert CANARY not in outcome
    assert secret.read_text() == CANARY
    assert [path.name for path in tmp_path.iterdir()] == ["secret.txt"]


@pytest.mark.parametrize(("attempt", "reasons"), BOMBS, ids=[attempt.name for attempt, _ in BOMBS])
def test_bomb_is_stopped_by_a_limit(sandbox: MontySandbox, attempt: Attempt, reasons: str):
    # Where only the bound of memory counts, a machine under load must not come to that of time first.
    limits = LIMITS if "timeout" in reasons else replace(LIMITS, time_ms=5_000)

    with pytest.raises(SandboxError) as caught:
        asyncio.run(sandbox.run(attempt.code, functions={"helper": helper}, limits=limits))

    assert caught.value.reason in reasons.split()
    assert len(str(caught.value)) < 1_000


def test_pool_works_after_all_attacks(sandbox: MontySandbox):
    async def several() -> list[object]:
        results = await asyncio.gather(*(sandbox.run(f"{n} * 2") for n in range(10)))
        return [result.value for result in results]

    assert asyncio.run(several()) == [n * 2 for n in range(10)]
