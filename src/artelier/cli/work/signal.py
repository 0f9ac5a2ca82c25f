"""`artelier signal`: data for a run that waits for it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from artelier.cli.call import CliCall
from artelier.cli.command import alone, command
from artelier.cli.runs.browse import RunId

app = alone()


@command(app, example="artelier signal refunds-march bank-file '{\"rows\": 214}'")
async def signal(
    call: CliCall,
    run: RunId,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the run waits for.")],
    data: Annotated[str | None, typer.Argument(metavar="JSON", help="What it is given.")] = None,
) -> None:
    """Hand data to a run that waits for it.

    The next run.wait_for(NAME) of the run gets it; it is kept until then.
    """
    from artelier.cli.runs.control import give, json_argument

    value: Any = None if data is None else json_argument(data, "the data")
    await give(call, run, f"was sent {name}", lambda runs: runs.signal(run, name, value, by=call.person))
