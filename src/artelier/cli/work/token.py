"""`artelier token`: bearer tokens for programs that ask the server of this database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from artelier.cli.call import CliCall
from artelier.cli.command import command, group
from artelier.errors import InvalidRequest
from artelier.log.places import file_beside

if TYPE_CHECKING:
    from artelier.server.security.users import ProgramTokens

app = group(
    "token",
    help="Make bearer tokens for programs, and take them back. They are for `artelier up` without --auth.",
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Of the program.")]


@command(app, example="artelier token new notebook")
def new(call: CliCall, name: Name = "program") -> None:
    """Print a new token; it is shown once.

    A program sends it as `Authorization: Bearer`; OpenAI's clients take it as API key, with the base URL
    http://127.0.0.1:8321/v1. It may do all that the person at this machine may, but for what only admins do.
    With --auth, tokens stand in the file of users instead.
    """
    from artelier.clock import SystemClock

    token = _tokens(call).add(name, now_us=SystemClock().now_us())
    if call.print_json({"name": name, "token": token}):
        return
    call.screen.note(f"the token of {name}; it is shown once")
    call.screen.text(token)


@command(app, name="list", example="artelier token list")
def list_(call: CliCall) -> None:
    """List the tokens by name."""
    from artelier.cli.display import moment

    known = _tokens(call).list()
    if call.print_json([{"name": one.name, "made_us": one.made_us} for one in known]):
        return
    rows = [(one.name, moment(one.made_us)) for one in known]
    call.screen.table(("name", "made"), rows, empty="no program has a token")


@command(app, example="artelier token revoke notebook")
def revoke(call: CliCall, name: Name) -> None:
    """Let a token be worth nothing from now on. A server that runs obeys, too."""
    _tokens(call).revoke(name)
    call.screen.note(f"revoked the token of {name}")


def _tokens(call: CliCall) -> ProgramTokens:
    from artelier.server.security.users import ProgramTokens, tokens_file

    database = file_beside(call.database)
    if database == ":memory:":
        raise InvalidRequest("a database in memory has no tokens", hint="Name a file with --db.")
    return ProgramTokens(tokens_file(Path(database)))
