"""What holds for the tests about the repository."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.repository.sources import sources


@pytest.fixture(scope="package", autouse=True)
def trees_end_with_these_tests() -> Iterator[None]:
    """Forget the syntax trees: they are 500 MB, which the tests that come after would carry along."""
    yield
    sources.cache_clear()
