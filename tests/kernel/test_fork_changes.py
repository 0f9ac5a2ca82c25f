"""What a fork of a finished run is to do otherwise: it begins where that matters, or is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artelier import Run
from artelier.errors import NotFound
from artelier.testing import ScriptedModel
from tests.kernel.stage import drive, echo, kinds, open_kernel, play, result_of, user
from tests.kernel.test_fork import three_turns


@pytest.mark.parametrize(
    ("asked", "texts"),
    [
        ({"model": "other"}, ["old: a", "o: b", "o: c"]),
        ({"model": "m"}, ["m: a", "m: b", "m: c"]),
        ({"steering": {"x": 1}}, ["o: a", "m: b", "o: c"]),
    ],
)
def test_a_fork_of_a_finished_run_begins_where_what_differs_is_first_asked(
    tmp_path: Path, asked: dict[str, Any], texts: list[str]
) -> None:
    """A fork behind its last step would be its origin once more, and nobody would be told."""

    def answering(name: str) -> ScriptedModel:
        return ScriptedModel(lambda request: f"{name}: {request.messages[-1].text}")

    async def code(run: Run) -> list[str]:
        await run.step("before", lambda: 1)
        texts: list[str] = []
        for text, model in (("a", "other"), ("b", "m"), ("c", "other")):
            reply = await run.step_model(model=model, messages=[user(text)])
            texts.append(reply.text)
        return texts

    async def scenario() -> None:
        with open_kernel(tmp_path, {"m": answering("old"), "other": answering("old")}) as kernel:
            await drive(kernel.for_tenant(), code)
        with open_kernel(tmp_path, {"m": answering("m"), "other": answering("o")}) as kernel:
            runs = kernel.for_tenant()
            name = await runs.fork("r", with_=asked)
            assert await drive(runs, code, name) == "completed"
            assert await result_of(runs, name) == texts
            assert (await kinds(kernel, name)).count("step.completed") == 0, "it is shared"

    play(scenario())


def test_another_model_that_no_step_of_a_finished_run_would_ask_is_refused(tmp_path: Path) -> None:
    async def no_model(run: Run) -> int:
        return await run.step("sum", lambda: 3)

    async def scenario() -> None:
        with open_kernel(tmp_path, {"m": echo(), "better": echo()}) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, three_turns)
            await drive(runs, no_model, "s")
            for run_id, asked in (
                ("r", {"model": "m"}),
                ("s", {"model": "better"}),
                ("s", {"steering": {"x": 1}}),
            ):
                with pytest.raises(NotFound, match="no step of it would be another"):
                    await runs.fork(run_id, with_=asked)
            assert len((await runs.runs())["items"]) == 2

            name = await runs.fork("r", at=4, with_={"model": "m"})  # to be asked once more
            assert (await runs.show(name))["origin_seq"] == 4

    play(scenario())
