"""The helper process that searches large texts for personal data; it is fed only by `search_processes.py`.

It is given texts and names of detectors, and answers with places. It holds no key and makes no placeholder.
"""

from __future__ import annotations

import json
import os
import time
from functools import lru_cache
from typing import Any

import msgspec

from artelier.child import HelperFailure
from artelier.child_loop import MIB, serve
from artelier.errors import ArtelierError, PatternTimeout
from artelier.pii.detectors import builtin_detectors, pattern
from artelier.pii.hidden_values import PlacesAnswer, places
from artelier.ports.pii import Detector

MEMORY_BYTES_MAX = 768 * MIB
"""Address space: the libraries, and some hundred times a window of text."""

NICENESS = 10
"""A search takes a second or more, and leaves the processor to a server that has something to do."""


def main() -> None:
    def answer(message: dict[str, Any]) -> tuple[bytes, bool]:
        return json.dumps(msgspec.to_builtins(_answer(message))).encode(), True

    os.nice(NICENESS)
    serve(answer, memory_bytes_max=MEMORY_BYTES_MAX)


def _answer(message: dict[str, Any]) -> PlacesAnswer | HelperFailure:
    began_s = time.process_time()
    try:
        detectors = [_detector(*one) for one in message["detectors"]]
        found = places(detectors, message["text"], rules=message["rules"])
        values = {value: at for at, value in enumerate(dict.fromkeys(one[2:] for one in found))}
    except PatternTimeout as error:
        return HelperFailure(failed="pattern", message=str(error), kind=error.facts.get("kind"))
    except ArtelierError as error:
        return HelperFailure(failed="refused", message=str(error))
    except MemoryError:
        return HelperFailure(failed="too_large", message="it needs too much memory")
    flat = [number for one in found for number in (one.start, one.end, values[one[2:]])]
    return PlacesAnswer(values=list(values), found=flat, took_s=time.process_time() - began_s)


@lru_cache(maxsize=512)
def _detector(kind: str, expression: str | None) -> Detector:
    if expression is not None:
        return pattern(kind, expression)
    return next(one for one in builtin_detectors() if one.kind == kind)


if __name__ == "__main__":
    main()
