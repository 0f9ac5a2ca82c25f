"""The process boundary: arguments in, an exit code out, and never a traceback that nobody asked for."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import Any

from artelier.cli.exit_codes import INTERRUPTED, USAGE, report


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and give its exit code; `sys.argv` if no arguments are given."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:  # a process of its own, which may hold keys
        from artelier.confinement import hide_memory

        hide_memory()
    for stream in (sys.stdout, sys.stderr):
        # What a terminal cannot show is escaped, not a reason to fail.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    from artelier.cli import completion
    from artelier.cli.tree import root_command

    as_json = "--json" in given
    if completion.VARIABLE in os.environ:
        completion.prepare()
    try:
        code: Any = root_command().main(given, prog_name="artelier", standalone_mode=False)
    except Exception as error:  # the boundary of the process
        return _usage(error, as_json=as_json) or report(error, as_json=as_json)
    return code if isinstance(code, int) else 0


def _usage(error: Exception, *, as_json: bool) -> int:
    """Show what the parser of arguments complains about; 0 if it is not about arguments."""
    from typer import Abort
    from typer.exceptions import TyperException

    if isinstance(error, Abort):
        return INTERRUPTED
    if not isinstance(error, TyperException):
        return 0
    from artelier.errors import InvalidRequest

    context: Any = getattr(error, "ctx", None)
    path: str = context.command_path if context is not None else "artelier"
    text = error.format_message()
    if type(error).__name__ == "NoArgsIsHelpError":
        if not as_json:
            print(text, file=sys.stderr)
            return USAGE
        text = "a command is missing"
    return report(
        InvalidRequest(text.rstrip("."), hint=f"`{path} --help` shows how it is used."), as_json=as_json
    )
