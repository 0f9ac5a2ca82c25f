"""Regular expressions over lines. A pattern may never end; the parent kills this process then."""

from __future__ import annotations

import re
import warnings
from functools import lru_cache
from typing import Any

from artelier.tools.worker.tables import Failure

LINE_CHARS_MAX = 500


def match_lines(pattern: str, text: str, *, hits_max: int) -> dict[str, Any]:
    """The first lines that match: `{"hits": [[line number from 1, the line], ...]}`."""
    compiled = _compile(pattern)
    hits: list[list[Any]] = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        if compiled.search(line):
            hits.append([number, line[:LINE_CHARS_MAX]])
            if len(hits) >= hits_max:
                break
    return {"hits": hits}


@lru_cache(maxsize=1)
def _compile(pattern: str) -> re.Pattern[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise Failure(
            f"not a regular expression: {str(error)[:200]}", hint="Python's re syntax is used."
        ) from None
