"""The strict kinds for the length of a test, so that no other test depends on the order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from artelier.artifacts import register_kind
from artelier.artifacts.kinds import kind_named
from artelier.world.mind_artifacts import register_minds

REPLACED = ("prompt", "personality", "library", "workflow", "reflex")


@contextmanager
def strict_kinds() -> Iterator[None]:
    before = [kind_named(name) for name in REPLACED]
    register_minds()
    try:
        yield
    finally:
        for kind in before:
            register_kind(kind, replace=True)
