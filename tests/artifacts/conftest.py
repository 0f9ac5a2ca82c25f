from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from artelier.sandbox import MontySandbox


@pytest.fixture(scope="session")
def sandbox() -> Iterator[MontySandbox]:
    """One pool of two workers for all tests: that it still works after every attack is part of the proof."""
    pool = MontySandbox(workers=2)
    yield pool
    asyncio.run(pool.close())
