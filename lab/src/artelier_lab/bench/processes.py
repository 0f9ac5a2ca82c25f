"""Fresh Python processes to measure, as a user would start them: byte-compiled."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def python(*arguments: str) -> Sequence[str]:
    """A command line of this interpreter."""
    return (sys.executable, *arguments)


def compiling_environ() -> dict[str, str]:
    """This environment, in which imports leave their byte code behind for the next process."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
