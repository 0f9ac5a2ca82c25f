"""Planted bugs of missions: each breaks one promise, so that it can be seen that torture finds it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

from artelier.missions.plan import mission_loop
from artelier.missions.task import task_loop


@contextmanager
def _replaced(owner: Any, name: str, wrap: Callable[[Any], Any]) -> Generator[None]:
    before = getattr(owner, name)
    setattr(owner, name, wrap(before))
    try:
        yield
    finally:
        setattr(owner, name, before)


def _hasty_tasks() -> AbstractContextManager[None]:
    """A mission begins with all of its tasks at once."""

    def wrap(placed: Any) -> Any:
        def placed_first(id: str, depends_on: tuple[str, ...]) -> Any:
            return placed(id, ())

        return placed_first

    async def depends_on_nothing(*_: Any) -> bool:
        return False

    @contextmanager
    def planted() -> Generator[None]:
        # Else the mission would see in the log what its tasks wait for, and take that up again and again.
        with (
            _replaced(mission_loop, "Placed", wrap),
            _replaced(mission_loop.MissionLoop, "_depends_otherwise", lambda _: depends_on_nothing),
        ):
            yield

    return planted()


def _lenient_judge() -> AbstractContextManager[None]:
    """Whatever the verdict says, the task is done."""

    def wrap(evaluate: Any) -> Any:
        async def evaluate_and_pass(*args: Any, **more: Any) -> Any:
            return replace(await evaluate(*args, **more), passed=True, void="")

        return evaluate_and_pass

    return _replaced(task_loop, "evaluate", wrap)


MISSION_PLANTS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "hasty-tasks": _hasty_tasks,
    "lenient-judge": _lenient_judge,
}
