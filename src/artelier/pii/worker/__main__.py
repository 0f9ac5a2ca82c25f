"""The loop of the helper process: one line of JSON in, one line of JSON out, until the input ends."""

from __future__ import annotations

import contextlib
import json
import resource
import select
import signal
import sys
import time
from functools import lru_cache
from typing import Any

from artelier.errors import ArtelierError, PatternTimeout
from artelier.pii.detectors import pattern, shipped
from artelier.pii.windows import places
from artelier.ports.pii import Detector

MEMORY_BYTES_MAX = 768 * 1024 * 1024
"""Address space: the libraries, and some hundred times a window of text."""
IDLE_S = 600
"""After this time without a question the process ends."""
GRACE_S = 5
"""How long past its time a question may go on before the process ends itself, if its parent died."""


def main() -> None:
    _limit()
    while select.select([sys.stdin], [], [], IDLE_S)[0]:
        line = sys.stdin.buffer.readline()
        if not line:
            return
        message: dict[str, Any] = json.loads(line)
        signal.alarm(int(message["timeout_s"]) + GRACE_S)
        answer = json.dumps(_answer(message))
        signal.alarm(0)
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()


def _answer(message: dict[str, Any]) -> dict[str, Any]:
    began_s = time.process_time()
    try:
        detectors = [_detector(*one) for one in message["detectors"]]
        found = places(detectors, message["text"], rules=message["rules"])
        values = {value: at for at, value in enumerate(dict.fromkeys(one[2:] for one in found))}
    except PatternTimeout as error:
        return {"failed": "pattern", "message": str(error), "kind": error.facts.get("kind")}
    except ArtelierError as error:
        return {"failed": "refused", "message": str(error)}
    except MemoryError:
        return {"failed": "too_large", "message": "it needs too much memory"}
    flat = [number for one in found for number in (one.start, one.end, values[one[2:]])]
    return {"values": list(values), "found": flat, "took_s": time.process_time() - began_s}


@lru_cache(maxsize=512)
def _detector(kind: str, expression: str | None) -> Detector:
    if expression is not None:
        return pattern(kind, expression)
    return next(one for one in shipped() if one.kind == kind)


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY or hard > MEMORY_BYTES_MAX:
        # Not every system lets a process bound its address space.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, hard))


if __name__ == "__main__":
    main()
