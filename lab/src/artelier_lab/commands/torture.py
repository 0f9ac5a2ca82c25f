"""`artelier torture`: crashes, delays and hostile replies, drawn from seeds, against the promises."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from artelier.cli import display
from artelier.cli.call import CliCall
from artelier.cli.command import alone, command
from artelier.cli.exit_codes import COMPLETED, FAILED
from artelier.errors import InvalidRequest

app = alone()

SHOWN_MAX = 12
"""Kinds of faults and calls that are listed; --json has all of them."""


@command(app, example="artelier torture --seeds 300")
def torture(
    call: CliCall,
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", help="How many seeds to try.", min=1)] = 100,
    start: Annotated[int, typer.Option("--start", metavar="N", help="The first seed.", min=0)] = 0,
    plant: Annotated[
        str | None,
        typer.Option("--plant", metavar="NAME", help="Put a known bug in, to see that it is found."),
    ] = None,
    real: Annotated[bool, typer.Option("--real", help="Real processes and real `kill -9`; slower.")] = False,
    store: Annotated[
        str, typer.Option("--store", metavar="ENGINE", help="`sqlite`; `postgres` or `pgbouncer` (slower).")
    ] = "sqlite",
    jobs: Annotated[
        int | None, typer.Option("--jobs", metavar="N", help="Processes: else one per CPU.", min=1)
    ] = None,
    directory: Annotated[
        str | None,
        typer.Option("--directory", metavar="DIR", help="Where databases are put: else a temporary one."),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the databases of failed seeds in --directory.")
    ] = False,
    availability: Annotated[
        bool,
        typer.Option(
            "--availability", help="Hostile inputs of one tenant against a server; see another's waits."
        ),
    ] = False,
    workers: Annotated[
        bool, typer.Option("--workers", help="Four real workers over one PostgreSQL, and their faults.")
    ] = False,
    runs: Annotated[
        int, typer.Option("--runs", metavar="N", help="With --workers: so many runs pay ten times.", min=1)
    ] = 1_000,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="NAME", help="This input, or this plan of faults; repeatable."),
    ] = None,
) -> int:
    """Try to break the promises of the kernel.

    Each seed draws agents, model replies, delays, crashes at every instant, two workers on one run and
    people who interfere; then the promises are checked. A failure names the command that repeats it.
    With --availability a real server is attacked by one tenant, input by input, while another asks 50 times a
    second; at the end a run freezes its server until it is parked. It takes ten minutes, of two cores of its
    own. With --workers, the plans are kill, restart, stop, server, cut, partition, read-only and connections.
    """
    if workers:
        return _workers(call, only or [], runs=runs, seed=start)
    if availability:
        return _availability(call, only or [], plant=plant or "")
    from artelier_lab.torture import run_torture

    with call.screen.counting(f"{display.count(seeds, 'seed')} from {start}", total=seeds) as tried:
        found = run_torture(
            seeds,
            start=start,
            plant=plant,
            real=real,
            store=store,
            jobs=jobs,
            directory=directory,
            keep=keep,
            progress=tried,
        )
    _show(call, found)
    return COMPLETED if found["ok"] else FAILED


def _show(call: CliCall, found: dict[str, Any]) -> None:
    if call.as_json:
        call.screen.json(found)
        return
    call.screen.facts(
        [
            ("seeds", f"{found['seeds']:,} of {found['asked']:,}"),
            ("faults", _counted(found["faults"])),
            ("runs", _counted(found["statuses"])),
            ("calls", _counted(found["calls"])),
            ("events", f"{found['events']:,} in {found['commits']:,} commits"),
            ("time", f"{found['virtual_s']:,} s lived in {found['wall_s']:,} s"),
        ]
    )
    for failure in found["failures"]:
        call.screen.line()
        call.screen.line(
            f"seed {failure['seed']}: {display.count(failure['findings_total'], 'finding')}", "bold red"
        )
        for finding in failure["findings"]:
            call.screen.line(f"- {finding['invariant']}: {finding['what']}")
        call.screen.line(f"again: {failure['command']}")
        if failure["databases"] is not None:
            call.screen.line(f"databases: {failure['databases']}")
    failed = len(found["failures"])
    verdict = "every promise held" if found["ok"] else f"{display.count(failed, 'seed')} failed"
    call.screen.line(verdict, "bold green" if found["ok"] else "bold red")


def _workers(call: CliCall, names: list[str], *, runs: int, seed: int) -> int:
    from artelier_lab.torture.workers import run_workers

    found = run_workers(names, runs=runs, seed=seed, progress=call.screen.note)
    if call.as_json:
        call.screen.json(found)
    else:
        for name, one in found["plans"].items():
            call.screen.line(f"{name}: {one['payments']:,} payments, {_counted(one['faults'])}")
            for finding in one["findings"]:
                call.screen.line(f"- {finding}")
        verdict = "every promise held" if found["ok"] else "a promise was broken"
        call.screen.line(verdict, "bold green" if found["ok"] else "bold red")
    return COMPLETED if found["ok"] else FAILED


def _availability(call: CliCall, names: list[str], *, plant: str) -> int:
    from artelier_lab.availability.session import INPUTS, PLANTS, run_availability

    known = [one.name for one in INPUTS]
    if unknown := [name for name in names if name not in known]:
        raise InvalidRequest("no such input", got=unknown[0], expected=", ".join(known))
    if plant not in PLANTS:
        raise InvalidRequest("no such plant", got=plant, expected=", ".join(PLANTS[1:]))

    found = run_availability(names, plant=plant, told=lambda one: call.screen.note(one.line))
    if call.as_json:
        call.screen.json(found)
    else:
        call.screen.facts(
            [
                ("inputs", f"{found['inputs']}, twins well {found['twins_ok']}"),
                (
                    "another tenant",
                    f"{found['worst_other_tenant_ms_p99']:,.0f} ms at p99, "
                    f"{found['worst_other_tenant_ms_max']:,.0f} ms at most",
                ),
                ("its agent's step", f"{found['worst_step_ms_max']:,.0f} ms at most"),
                ("memory", f"{found['rss_mb_max']:,.0f} MB"),
                ("parked", f"{found['parked']} of {int(found['life'] is not None)} runs that freeze"),
            ]
        )
        verdict = "every promise held" if found["ok"] else "a promise was broken"
        call.screen.line(verdict, "bold green" if found["ok"] else "bold red")
    return COMPLETED if found["ok"] else FAILED


def _counted(counts: dict[str, int]) -> str:
    """The most frequent ones; they come in that order."""
    shown = [f"{count:,} {name}" for name, count in counts.items()]
    more = len(shown) - SHOWN_MAX
    return ", ".join(shown[:SHOWN_MAX]) + (f", and {more} more kinds" if more > 0 else "")
