"""One measurement of one peer, for a process of its own: `python -m ... PEER WHAT NUMBER FOLDER`."""

from __future__ import annotations

import importlib
import json
import sys
import time
from importlib.metadata import version
from pathlib import Path

from artelier_lab.bench.peers.workload import LATER, Watch


def main(peer: str, what: str, number: str, folder: str) -> None:
    """Print what was measured as JSON: times in milliseconds."""
    began = (time.process_time(), time.perf_counter())
    module = importlib.import_module(f"artelier_lab.bench.peers.{peer}")
    loaded = (time.process_time(), time.perf_counter())
    count, place = int(number), Path(folder)
    watch = Watch(die_at=count + 1 if what == "die" else 0)
    if what == "crowd":
        module.crowd(place, count, watch)
    else:  # `die` and `resume` are about one agent of a few more turns
        module.converse(place, count if what == "turns" else count + LATER, watch)
    ended = (time.process_time(), time.perf_counter())
    first = watch.first_s or ended
    found = {
        "versions": {name: version(name) for name in module.PACKAGES},
        "asked": watch.asked,
        "import_cpu_ms": 1000 * (loaded[0] - began[0]),
        "first_cpu_ms": 1000 * (first[0] - loaded[0]),
        "first_wall_ms": 1000 * (first[1] - loaded[1]),
        "between_cpu_ms": 1000 * (watch.last_s[0] - first[0]),
        "between_wall_ms": 1000 * (watch.last_s[1] - first[1]),
        "whole_cpu_ms": 1000 * (ended[0] - loaded[0]),
        "whole_wall_ms": 1000 * (ended[1] - loaded[1]),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
