from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from artelier.ports.sandbox import SandboxLimits
from artelier.sandbox import MontySandbox

LIMITS = SandboxLimits(time_ms=200, memory_bytes=16 * 1024 * 1024, output_bytes=10_000, depth=100)


@pytest.fixture(scope="session")
def sandbox() -> Iterator[MontySandbox]:
    """One pool for all tests; that it still works after every attack is part of the proof."""
    pool = MontySandbox(limits=LIMITS)
    yield pool
    asyncio.run(pool.close())
