"""The tutorial, followed literally: its files are written, its commands run, and they print what it says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.repository.markdown import Block, blocks
from tests.repository.sources import ROOT


def run(block: Block, folder: Path, exports: list[str]) -> str:
    exports += [line for line in block.code.splitlines() if line.startswith("export ")]
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    script = "\n".join(("set -eo pipefail", *exports, block.code))
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env={"PATH": path, "HOME": str(folder), "LANG": "C.UTF-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,  # as on a terminal
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"line {block.line}: {done.stdout}"
    return done.stdout


def test_every_command_of_the_tutorial_prints_what_it_says(tmp_path: Path) -> None:
    page = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    exports, printed, compared = list[str](), "", 0
    for block in blocks(page):
        if block.language == "python":
            name = block.code.splitlines()[0].removeprefix("# ")
            (tmp_path / name).write_text(block.code, encoding="utf-8")
        elif block.language == "sh":
            printed = run(block, tmp_path, exports)
        else:
            rest = printed
            for line in block.code.splitlines():
                assert line in rest, f"line {block.line}: {line!r} does not come next in {printed!r}"
                rest = rest.split(line, 1)[1]
                compared += 1
    assert compared > 15
    books = (tmp_path / "bank.txt").read_text().split()
    assert len(books) == 2 * 3, "two payments, of three words"
