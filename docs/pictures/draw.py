"""Draw docs/pictures/do.svg from a real run in a real terminal: `.venv/bin/python docs/pictures/draw.py`."""

import io
import os
import pty
import re
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[2]
GOAL = "Which three regions sold most, and what changed from Q2 to Q3? Write a report."
COLUMNS, ROWS_MAX = 112, 46


def record() -> str:
    """What the terminal shows of `artelier do` on the example workspace."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(COLUMNS=str(COLUMNS), TERM="xterm-256color", ARTELIER_DB=f"{folder}/state.db")
        chunks: list[bytes] = []

        def keep(descriptor: int) -> bytes:
            chunks.append(os.read(descriptor, 65536))
            return chunks[-1]

        os.chdir(ROOT)
        command = [
            sys.executable,
            "-m",
            "artelier",
            "do",
            GOAL,
            "--workspace",
            "examples/data/sales",
            "--run-id",
            "sales-report",
            "--out",
            f"{folder}/report.md",
        ]
        pty.spawn(command, keep)
        shown = b"".join(chunks).decode().replace("\r\n", "\n").replace(folder, ".artelier")
        shown = shown.replace(f"{ROOT}/", "")
    # Rich keeps colours; cursor movements have no place in a still picture.
    return re.sub(r"\x1b\[[0-9;?]*[A-HJKfhlsu]", "", shown)


def draw(shown: str) -> None:
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text(f'$ artelier do "{GOAL}" ...', style="bold"))
    for line in shown.splitlines()[:ROWS_MAX]:
        console.print(Text.from_ansi(line), overflow="ellipsis", no_wrap=True)
    svg = console.export_svg(title="artelier do")
    # No font is fetched from elsewhere: the reader's own monospace serves.
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL).replace("Fira Code, ", "")
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    (Path(__file__).parent / "do.svg").write_text(svg, "utf-8")


draw(record())
