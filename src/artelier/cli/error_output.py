"""Errors as people and scripts see them: what was expected, what came, what to do; no traceback unasked."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

from artelier.cli import exit_codes
from artelier.cli.display import json_text, safe
from artelier.errors import ArtelierError

DEBUG = "ARTELIER_DEBUG"
"""Environment variable that asks for tracebacks."""


def report(error: BaseException, *, as_json: bool, marked: Callable[[str], str] = lambda text: text) -> int:
    """Show an error and give its exit code: on stdout as JSON, else on stderr as text.

    `marked` takes personal data out of what is said.
    """
    if os.environ.get(DEBUG):
        print(marked("".join(traceback.format_exception(error))), file=sys.stderr)
    wire = {name: marked(one) if isinstance(one, str) else one for name, one in _wire(error).items()}
    if as_json:
        print(json_text({"error": wire}))
    else:
        print(text_of(wire), file=sys.stderr)
    return exit_codes.of_error(error)


def _wire(error: BaseException) -> dict[str, Any]:
    if isinstance(error, ArtelierError):
        return error.to_wire()
    return {
        "code": "unexpected",
        "message": f"{type(error).__name__}: {error}",
        "expected": None,
        "got": None,
        "hint": f"This is a mistake of Artelier, not yours. Set {DEBUG}=1 to see where it comes from.",
    }


def text_of(wire: dict[str, Any]) -> str:
    """An error on a few lines."""
    lines = [f"error: {safe(str(wire['message']))}"]
    for name in ("expected", "got", "hint"):
        if wire.get(name) is not None:
            text = safe(str(wire[name])).replace("\n", "\n" + " " * 12)
            lines.append(f"  {name:<9} {text}")
    return "\n".join(lines)
