"""Off means no cost: nothing of OpenTelemetry is imported, and nobody is told of anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROGRAM = """
import asyncio, sys
from artelier import Kernel, tool
from artelier.testing import ScriptedModel, tool_call

@tool(side_effect=False)
async def look(at: str) -> str:
    "Look."
    return at

async def main():
    with Kernel.open(sys.argv[1], models=ScriptedModel(["a", "b"]), tools=[look], {given}) as kernel:
        async with kernel.run("r") as run:
            await run.step_model(model="m", messages=[{{"role": "user", "content": "x"}}])
            await run.step_tool("look", {{"at": "moon"}})
            async with kernel.run("c", parent=run) as child:
                await child.step_model(model="m", messages=[{{"role": "user", "content": "x"}}])

asyncio.run(main())
print(sorted(name for name in sys.modules if name.startswith(("opentelemetry", "artelier.telemetry"))))
"""


@pytest.mark.parametrize("given", ["", "telemetry=None"])
def test_off_imports_nothing_of_it(tmp_path: Path, given: str) -> None:
    assert _modules(tmp_path, given) == "[]"


def test_on_imports_it(tmp_path: Path) -> None:
    """So that the test above can fail."""
    assert "opentelemetry.trace" in _modules(tmp_path, "telemetry=True")


def _modules(tmp_path: Path, given: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(given=given), str(tmp_path / "s.db")],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.strip()
