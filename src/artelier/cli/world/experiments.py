"""Experiments with worlds: sweep, describe."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from artelier.cli import display, exit_codes
from artelier.cli.call import CliCall
from artelier.cli.command import command
from artelier.cli.exit_codes import report
from artelier.cli.world.creation import Name, PolicyFile, app, policies_of, with_model, world_of
from artelier.cli.world.ticks import WorldModel
from artelier.errors import InvalidRequest, LimitReached, NotFound, StoreUnavailable
from artelier.money import format_usd, parse_usd

if TYPE_CHECKING:
    from artelier.world.figures.sweep_processes import Sweeping

JOBS_MAX = 256


@command(
    app,
    name="sweep",
    example="artelier world sweep world.toml --param agents=10,20 --seeds 5 --out results.csv",
)
async def sweep(
    call: CliCall,
    file: Annotated[Path, typer.Argument(metavar="WORLD.toml", help="The world to pass.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="results.csv or results.parquet.")],
    params: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            metavar="NAME=A,B",
            help="Values of a setting, such as mint.every, or of agents: how many each template"
            " with {n} makes. Repeatable: all combinations are run.",
        ),
    ] = None,
    seeds: Annotated[
        int, typer.Option("--seeds", metavar="N", help="Seeds of each combination, from the file's on.")
    ] = 1,
    ticks: Annotated[int, typer.Option("--ticks", metavar="N", help="Of each run.")] = 100,
    jobs: Annotated[
        int | None, typer.Option("--jobs", metavar="N", help="Processes: else one per processor.")
    ] = None,
    max_usd: Annotated[
        str | None,
        typer.Option("--max-usd", metavar="AMOUNT", help="Most that models may cost, over all runs."),
    ] = None,
    policies: PolicyFile = None,
    model: WorldModel = None,
) -> int:
    """Run a world with all combinations of parameters and seeds.

    The output has a row for each run. The world of each is in a database of its own, in a folder beside the
    output: results.sweep. What is done there is not done again, and what was broken off goes on where it
    stopped; a run whose world, ticks or rule agents have changed is another one. If the cap is reached, the
    rows of the runs that are done are written, and the exit code is that of a budget.
    """
    from artelier.cli.world.sweep_processes import MODULE, committed_before, options_of
    from artelier.world.figures.sweep import columns_of, folder_of, plan, read_params, write_table
    from artelier.world.figures.sweep_processes import Sweeping
    from artelier.world.genesis import read_world_file

    folder = folder_of(out)
    jobs = _jobs(jobs)
    cap = None if max_usd is None else parse_usd(max_usd)
    policies_of(policies)  # what cannot be read is said before anything begins
    planned = plan(
        with_model(call, read_world_file(file), model),
        read_params(params or []),
        seeds=seeds,
        ticks=ticks,
        rules=b"" if policies is None else policies.read_bytes(),
    )
    _make(folder)
    words = ["world", "sweep", str(file), "--out", str(out)]
    words += _again(params, seeds, ticks, policies, max_usd, model)
    call.resumable = call.command_line(*words)
    with call.screen.counting(f"runs of {file.name}", total=len(planned)) as told:
        sweeping = Sweeping(
            planned,
            module=MODULE,
            options=options_of(call, policies),
            folder=folder,
            jobs=jobs,
            cap=cap,
            told=told,
            committed_before=partial(committed_before, tenant=call.tenant, config=call.config),
        )
        await sweeping.run()
    rows = [sweeping.rows[one.id] for one in planned if one.id in sweeping.rows]
    write_table(out, rows, columns_of(planned))
    return _tell(call, sweeping, out=out, runs=len(planned), cap=cap)


@command(app, name="describe", example="artelier world describe market > market.md")
async def describe(call: CliCall, name: Name) -> None:
    """Describe a world by the ODD protocol, as Markdown.

    What it says is read from the world as it stands: settings, agents, artifacts, rules, and what was done.
    """
    from artelier.world.figures.odd_description import describe as described

    async with call.kernel() as kernel:
        text = await described(world_of(call, kernel, name))
    if not call.print_json({"world": name, "markdown": text}):
        call.screen.text(text)


def _jobs(given: int | None) -> int:
    if given is None:
        return min(os.cpu_count() or 1, JOBS_MAX)
    if not 1 <= given <= JOBS_MAX:
        raise InvalidRequest("--jobs", expected=f"1 to {JOBS_MAX}", got=given)
    return given


def _make(folder: Path) -> None:
    """The folder of the runs. Errors: `NotFound` if the folder of the output is not there."""
    if not folder.parent.is_dir():
        raise NotFound("there is no such folder for the output", got=str(folder.parent))
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise StoreUnavailable(
            f"the folder of the runs cannot be made: {error.strerror}", got=str(folder)
        ) from None


def _again(
    params: list[str] | None,
    seeds: int,
    ticks: int,
    policies: Path | None,
    max_usd: str | None,
    model: str | None,
) -> Iterator[str]:
    for one in params or []:
        yield from ("--param", one)
    yield from ("--seeds", str(seeds), "--ticks", str(ticks))
    if policies is not None:
        yield from ("--policies", str(policies))
    if max_usd is not None:
        yield from ("--max-usd", max_usd)
    if model is not None:
        yield from ("--model", model)


def _tell(call: CliCall, sweeping: Sweeping, *, out: Path, runs: int, cap: int | None) -> int:
    done = len(sweeping.rows)
    if sweeping.failed is not None:
        report(sweeping.failed, as_json=call.as_json)
        return getattr(sweeping.failed, "exit_code", exit_codes.FAILED)
    if sweeping.is_spent:
        assert cap is not None
        raise LimitReached(
            f"the cap of the sweep is used up: {done} of {display.count(runs, 'run')} are done",
            expected=f"runs that cost at most {format_usd(cap)} USD",
            got=f"{format_usd(sweeping.spent)} USD that are spent or held",
            hint=f"{out} has what is done; the same command with a higher --max-usd goes on.",
        )
    if call.print_json(
        {
            "out": str(out),
            "runs": runs,
            "done_before": sweeping.done_before,
            "model_cost_usd": format_usd(sweeping.spent),
        }
    ):
        return exit_codes.COMPLETED
    before = f", {sweeping.done_before} of them before" if sweeping.done_before else ""
    call.screen.line(f"{out}: {display.count(runs, 'run')}{before}")
    if sweeping.spent:
        call.screen.line(f"models have cost {format_usd(sweeping.spent)} USD")
    return exit_codes.COMPLETED
