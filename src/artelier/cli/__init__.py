"""The command line: a thin face over the public Python API, one module per group of commands."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; `sys.argv` if no arguments are given."""
    try:
        # Here, so that Ctrl-C while the rest is loaded ends quietly too.
        from artelier.cli.entry import main as enter

        return enter(arguments)
    except KeyboardInterrupt:
        from artelier.cli.exit_codes import INTERRUPTED

        return INTERRUPTED
