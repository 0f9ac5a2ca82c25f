"""The shell of the command line, for the tests of its command."""

from tests.cli.conftest import shell

__all__ = ["shell"]
