"""The group itself, and the arguments that its commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from artelier.cli.command import group
from artelier.cli.completion import run_ids

app = group("runs", help="Look at runs, steer them, branch off them.")

RunId = Annotated[str, typer.Argument(metavar="RUN", help="Id of the run.", autocompletion=run_ids)]
