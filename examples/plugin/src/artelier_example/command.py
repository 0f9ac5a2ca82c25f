"""The command `artelier words`: options such as `--json` come with `command`."""

from typing import Annotated

import typer

from artelier.cli.call import CliCall
from artelier.cli.command import alone, command

app = alone()


@command(app, example="artelier words 'how many are these'")
def words(call: CliCall, text: Annotated[str, typer.Argument(metavar="TEXT", help="A text.")]) -> None:
    """Count the words of a text."""
    count = len(text.split())
    if call.as_json:
        call.screen.json({"words": count})
    else:
        call.screen.line(str(count))
