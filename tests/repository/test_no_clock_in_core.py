"""The log, the ledger and the kernel read no clock, no chance and no environment: these are arguments.

Without this, a replay would not give what the first run gave.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.repository.sources import ROOT, dotted, imports, origins, sources

CORE = ("log", "ledger", "kernel")

FORBIDDEN_MODULES = {"uuid", "random", "secrets"}

FORBIDDEN_NAMES = {
    "time.time",
    "time.time_ns",
    "time.localtime",
    "time.gmtime",
    "time.ctime",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "datetime.datetime.today",
    "datetime.date.today",
    "os.environ",
    "os.environb",
    "os.getenv",
    "os.getenvb",
    "os.urandom",
    "artelier.clock.SystemClock",
}
"""Monotonic clocks are allowed: they measure how long something took and are never stored as a time."""


def check_core_is_pure(root: Path) -> list[str]:
    """Every read of clock, chance or environment below `root/artelier/{log,ledger,kernel}`."""
    found: list[str] = []
    for source in sources(root):
        if source.path.parts[:1] != ("artelier",) or source.path.parts[1] not in CORE:
            continue
        found += [
            f"{source.where(item.node)} imports {item.module}"
            for item in imports(source)
            if item.module.partition(".")[0] in FORBIDDEN_MODULES
        ]
        names = origins(source)
        found += [
            f"{source.where(node)} reads {name}"
            for node in ast.walk(source.tree)
            if (name := dotted(node, names)) in FORBIDDEN_NAMES
        ]
    return found


def test_the_core_reads_no_clock_chance_or_environment() -> None:
    assert check_core_is_pure(ROOT / "src") == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("import time\nnow = time.time()", "reads time.time"),
        ("import time as t\nnow = t.time_ns()", "reads time.time_ns"),
        ("from time import time as now\nx = now()", "reads time.time"),
        ("from datetime import UTC, datetime\nx = datetime.now(UTC)", "reads datetime.datetime.now"),
        ("import datetime\nx = datetime.date.today()", "reads datetime.date.today"),
        ("def f():\n    import uuid", "imports uuid"),
        ("from random import Random", "imports random"),
        ("import secrets", "imports secrets"),
        ("import os\nx = os.environ['HOME']", "reads os.environ"),
        ("from os import getenv\nx = getenv('HOME')", "reads os.getenv"),
        ("import os\nx = os.urandom(8)", "reads os.urandom"),
        ("from artelier.clock import SystemClock\nx = SystemClock()", "SystemClock"),
    ],
)
def test_a_hidden_input_is_found_in_the_core(tmp_path: Path, text: str, what: str) -> None:
    for package in ("kernel", "tools"):
        (tmp_path / "artelier" / package).mkdir(parents=True)
        (tmp_path / "artelier" / package / "a.py").write_text(text)

    found = check_core_is_pure(tmp_path)

    assert len(found) == 1
    assert found[0].startswith("artelier/kernel/a.py:")
    assert found[0].endswith(what)


def test_pure_uses_of_the_same_modules_are_accepted(tmp_path: Path) -> None:
    (tmp_path / "artelier" / "log").mkdir(parents=True)
    (tmp_path / "artelier" / "log" / "a.py").write_text(
        "import os, time\nstart = time.perf_counter()\nos.fsync(3)\nrow.time.time = 1\n"
    )

    assert check_core_is_pure(tmp_path) == []
