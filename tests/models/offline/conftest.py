"""Workspaces on disk, written once, with their tools open for all questions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.models.offline.driving import Workspace
from tests.models.offline.worlds import WORLDS, World

Open = Callable[[str], tuple[World, Workspace]]


@pytest.fixture(scope="session")
def open_world(tmp_path_factory: pytest.TempPathFactory) -> Open:
    """A world with the workspace that holds it."""
    opened: dict[str, tuple[World, Workspace]] = {}

    def open_one(name: str) -> tuple[World, Workspace]:
        if name not in opened:
            root = tmp_path_factory.mktemp("offline") / name
            world = WORLDS[name]()
            world.write(root)
            opened[name] = (world, Workspace(root))
        return opened[name]

    return open_one
