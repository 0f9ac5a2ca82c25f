"""Services that are reached by actions of their own: invoking them says which."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from artelier.artifacts import Call, Tree, Working
from artelier.errors import InvalidArguments


class Described:
    """A service with a handbook and no program."""

    def __init__(self, id: str, *actions: str) -> None:
        self._id = id
        self._actions = actions

    def units(self, args: Mapping[str, Any], /) -> int:
        raise self._refused_error()

    async def run(self, working: Working, call: Call, tree: Tree, /) -> Any:
        raise self._refused_error()

    def _refused_error(self) -> InvalidArguments:
        return InvalidArguments(
            f"{self._id} is not invoked", expected=f"the action {' or '.join(self._actions)}"
        )
