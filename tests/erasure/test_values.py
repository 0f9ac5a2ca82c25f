"""A value that stands in many runs is erased by naming it, in whatever spelling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from artelier import Run
from artelier.pii.vault import placeholders_in
from artelier.testing import ScriptedModel
from tests.kernel.stage import drive, play, result_of, user
from tests.pii.test_door import ACME, ANA, BO, PHONE, assert_nowhere, opened, seen


def test_a_value_is_erased_everywhere_and_others_stay(tmp_path: Path) -> None:
    model = ScriptedModel(lambda request: seen(request))

    def about(text: str) -> Any:
        async def code(run: Run) -> Any:
            return (await run.step_model(model="m", messages=[user(text)])).text

        return code

    async def scenario() -> None:
        with opened(tmp_path, model) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, about(f"{ANA} knows {BO}, {PHONE}"), "a") == "completed"
            assert await drive(runs, about(f"{BO} again"), "b") == "completed"
            before = [await runs.render(name, "1") for name in "ab"]
            told = await result_of(runs, "a")
            named = placeholders_in(told)

            erased = await runs.erase(subject=ANA.upper())
            await runs.erase(subject="+49 (151) 123-45678")

            assert erased.values == 1
            assert await runs.restored(told) == f"[erased] knows {BO}, [erased]"
            assert [await runs.render(name, "1") for name in "ab"] == before
            assert kernel.verify().ok
            # The value comes again: it is somebody's anew, and what was erased stays so.
            assert await drive(runs, about(f"{ANA} is back"), "c") == "completed"
            assert placeholders_in(await result_of(runs, "c"))[0] not in named
            assert await runs.restored(await result_of(runs, "c")) == f"{ANA} is back"
            assert await runs.restored(told) == f"[erased] knows {BO}, [erased]"
        with opened(tmp_path, model) as kernel:
            assert await kernel.for_tenant(ACME).restored(told) == f"[erased] knows {BO}, [erased]"

    play(scenario())
    assert_nowhere(tmp_path, ANA, BO, PHONE)
