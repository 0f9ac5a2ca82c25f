"""The area `peers`: CPU of a turn, of a run among a thousand at once, and of going on after a kill."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from artelier_lab.bench.figures import Target, judge, median, rounded
from artelier_lab.bench.machine import machine_facts
from artelier_lab.bench.peers.workload import DIES
from artelier_lab.bench.processes import compiling_environ, python

OURS = "artelier"
PEERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    OURS: ("artelier_agent", ()),
    "langgraph": ("langgraph_agent", ("langgraph", "langgraph.checkpoint.sqlite")),
    "dbos": ("dbos_workflow", ("dbos",)),
    "pydantic_ai_dbos": ("pydantic_ai_dbos", ("dbos", "pydantic_ai")),
    "openai_agents": ("openai_agents", ("agents",)),
}
"""Module of each, and what must be installed for it. They are no extra of ours, whose lock would then hold
older versions of what both use: install them beside a copy of ours.

    python -m venv peers && peers/bin/pip install -e . -e lab langgraph langgraph-checkpoint-sqlite dbos \\
        'pydantic-ai-slim[dbos]' openai-agents && peers/bin/artelier bench peers --json
"""

NOT_DURABLE = frozenset(("openai_agents",))
"""A killed run of these forgets what its tools have done; they are here for their cost alone."""

TURNS, TURNS_QUICK = 1_000, 50
RUNS, RUNS_QUICK = 1_000, 50
TIMES, TIMES_QUICK = 3, 1
TIMEOUT_S = 900

TARGETS = {
    "turn_cpu_over_best_peer": Target(at_most=1),
    "run_cpu_over_best_peer": Target(at_most=1),
    "resume_cpu_over_best_peer": Target(at_most=1),
}

UNITS = {
    "turn_cpu_ms": "CPU from one call of the model to the next, with a call of a tool in between",
    "run_cpu_ms": "CPU of a run of one turn among a thousand that begin at once",
    "run_wall_ms": "time for all of them, divided by how many there are",
    "resume_cpu_ms": "CPU of a new process, imports and all, up to the next call of the model after a kill",
    "over_best_peer": "ours, divided by the least of the peers that survive a kill",
}


def _measure(module: str, what: str, count: int, folder: Path) -> dict[str, Any]:
    """Errors: `CalledProcessError` with what the process has printed."""
    folder.mkdir(parents=True, exist_ok=True)
    command = python("-m", "artelier_lab.bench.peers.measure", module, what, str(count), str(folder))
    done = subprocess.run(
        command,
        env=compiling_environ(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if what == "die" and done.returncode == DIES:
        return {}
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr[-2_000:])
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _figures(module: str, folder: Path, *, turns: int, runs: int) -> dict[str, Any]:
    talk = _measure(module, "turns", turns, folder / "turns")
    crowd = _measure(module, "crowd", runs, folder / "crowd")
    _measure(module, "die", turns, folder / "resume")
    resumed = _measure(module, "resume", turns, folder / "resume")
    return {
        "versions": talk["versions"],
        "turn_cpu_ms": talk["between_cpu_ms"] / (talk["asked"] - 1),
        "run_cpu_ms": crowd["whole_cpu_ms"] / runs,
        "run_wall_ms": crowd["whole_wall_ms"] / runs,
        "resume_cpu_ms": resumed["import_cpu_ms"] + resumed["first_cpu_ms"],
    }


def bench_peers(*, quick: bool, directory: Path, progress: Callable[[str], None]) -> dict[str, Any]:
    """Measure all that are installed, in turns; `missing` names the others. Databases go to `directory`."""
    turns, runs = (TURNS_QUICK, RUNS_QUICK) if quick else (TURNS, RUNS)
    here = {name: one for name, one in PEERS.items() if all(_is_there(package) for package in one[1])}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in here}
    for number in range(TIMES_QUICK if quick else TIMES):
        for name, (module, _) in here.items():
            progress(f"peers: {name}, round {number + 1}")
            place = directory / f"{name}-{number}"
            found[name].append(_figures(module, place, turns=turns, runs=runs))
    figures: dict[str, float] = {}
    for name, rounds in found.items():
        for what in ("turn_cpu_ms", "run_cpu_ms", "run_wall_ms", "resume_cpu_ms"):
            figures[f"{name}_{what}"] = rounded(median([one[what] for one in rounds]))
    durable = [name for name in here if name != OURS and name not in NOT_DURABLE]
    for what in ("turn", "run", "resume") if durable else ():
        best = min(figures[f"{name}_{what}_cpu_ms"] for name in durable)
        figures[f"{what}_cpu_over_best_peer"] = rounded(figures[f"{OURS}_{what}_cpu_ms"] / best)
    versions: dict[str, str] = {}
    for rounds in found.values():
        versions |= rounds[0]["versions"]
    return {
        **figures,
        "versions": versions,
        "note": ", ".join(f"{package} {number}" for package, number in sorted(versions.items())),
        "missing": {name: "it is not installed" for name in PEERS if name not in here},
        "turns": turns,
        "runs": runs,
        "targets": judge(figures, TARGETS, unjudged=tuple(TARGETS) if quick else ()),
        "units": {name: UNITS[what] for name in figures for what in UNITS if name.endswith(what)},
        "machine": machine_facts(directory),
    }


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False
