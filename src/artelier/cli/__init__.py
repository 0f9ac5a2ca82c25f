"""The command line: a thin face over the public Python API, one module per group of commands."""

from artelier.cli.entry import main

__all__ = ["main"]
