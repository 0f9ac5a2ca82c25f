"""`artelier bench`: what things cost on this machine, against what they must cost."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from artelier.cli.call import CliCall
from artelier.cli.command import alone, command
from artelier.cli.exit_codes import COMPLETED, FAILED

app = alone()


@command(app, example="artelier bench kernel --quick")
def bench(
    call: CliCall,
    areas: Annotated[
        list[str] | None, typer.Argument(metavar="AREA", help="What to measure: else everything.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Measure less; what depends on size is not judged.")
    ] = False,
    directory: Annotated[
        str | None, typer.Option("--directory", metavar="DIR", help="Where databases are put: else here.")
    ] = None,
    data: Annotated[
        str | None, typer.Option("--data", metavar="FILE", help="Conversations to measure memory on.")
    ] = None,
) -> int:
    """Measure on this machine, and compare with the bounds.

    Exit code 1 tells that a bound is not met. A directory in memory makes durable commits look free.
    """
    from artelier_lab.bench import AREAS, run_bench

    results: list[dict[str, Any]] = []
    for area in areas or AREAS:
        with call.screen.working(f"measuring {area}") as progress:
            results.append(run_bench(area, quick=quick, directory=directory, progress=progress, data=data))
    if call.as_json:
        call.screen.json({"items": results, "next": None})
    else:
        for result in results:
            _show(call, result)
    return FAILED if any(_missed(result) for result in results) else COMPLETED


def _missed(result: dict[str, Any]) -> list[str]:
    return [name for name, target in result["targets"].items() if target["met"] is False]


def _show(call: CliCall, result: dict[str, Any]) -> None:
    machine: dict[str, Any] = result["machine"]
    call.screen.line(f"{result['area']}{' (quick)' if result['quick'] else ''}", "bold")
    call.screen.line(
        f"{machine['processor']}, {machine['cpus']} CPUs, load {machine['load_1_min']},"
        f" Python {machine['python']}, SQLite {machine['sqlite']}, {machine['filesystem']}"
    )
    if machine["in_memory"]:
        call.screen.note("this directory is in memory: commits cost nothing here", "yellow")
    if note := result.get("note"):
        call.screen.note(note)
    units: dict[str, str] = result["units"]
    rows = [
        (name, json.dumps(value), *_judged(result["targets"].get(name)), units.get(name, ""))
        for name, value in result.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    call.screen.table(("figure", ">value", ">must be", "met", "of what"), rows, empty="no figures")
    for name, reason in result.get("missing", {}).items():
        call.screen.note(f"{name} was not measured: {reason}", "yellow")


def _judged(target: dict[str, Any] | None) -> tuple[str, str]:
    """The bound, and whether it is met."""
    if target is None:
        return "", ""
    sign, key = ("<=", "at_most") if "at_most" in target else (">=", "at_least")
    met = {True: "yes", False: "NO", None: "not judged"}[target["met"]]
    return f"{sign} {json.dumps(target[key])}", met
