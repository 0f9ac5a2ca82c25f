"""The speed of the memory index on one thread: run as a program, prints its figures as JSON.

It is a program of its own, because the number of threads of the numeric library is set before it is loaded.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import cycle

ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
DIMS = 384
LOAD = (10_000, 768)
SMALL, LARGE = 10_000, 100_000
VOCABULARY = 30_000
WORDS = 18
"""Of one entry: about what a turn of a conversation has."""
QUERIES = 40
TIMES = 60
QUICK_TIMES = 15
TIMEOUT_S = 900.0


def measure_speed(*, quick: bool) -> dict[str, float]:
    """Run this module as a program with one thread and give its figures."""
    done = subprocess.run(
        [sys.executable, "-m", __name__, *(["--quick"] if quick else [])],
        env={**os.environ, **ONE_THREAD},
        capture_output=True,
        text=True,
        check=True,
        timeout=TIMEOUT_S,
    )
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def _median_ms(work: Callable[[], object], times: int) -> float:
    spent: list[float] = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        spent.append(time.perf_counter() - start)
    return sorted(spent)[len(spent) // 2] * 1000


class _Entries:
    """Entries whose words are as unevenly spread as those of a language, and questions about them."""

    def __init__(self, seed: int = 1) -> None:
        draw = random.Random(seed)
        letters = "abcdefghijklmnopqrstuvwxyz"
        self._draw = draw
        self._words = ["".join(draw.choices(letters, k=draw.randint(3, 9))) for _ in range(VOCABULARY)]
        self._words[:12] = "go hike dog kid paint job music trip help school book friend".split()
        self._shares = [1 / (place + 3) for place in range(VOCABULARY)]

    def texts(self, count: int) -> list[str]:
        words = self._draw.choices(self._words, self._shares, k=count * WORDS)
        return [" ".join(words[n * WORDS : (n + 1) * WORDS]) for n in range(count)]

    def queries(self) -> list[str]:
        return [
            f"When did Ann go hiking with her kids near the {one} and the {two}?"
            for one, two in zip(
                self._draw.choices(self._words, self._shares, k=QUERIES),
                self._draw.choices(self._words[100:2_000], k=QUERIES),
                strict=True,
            )
        ]


def _index_figures(entries: _Entries, count: int, times: int) -> dict[str, float]:
    """Add, query and filtered query of one size."""
    import numpy as np

    from artelier.memory.index.index_entry import Record
    from artelier.memory.index.memory_index import MemoryIndex

    draw = np.random.default_rng(count)
    vectors = [row.tobytes() for row in draw.standard_normal((count, DIMS), np.float32).astype("<f2")]
    records = [
        Record(
            id=str(n),
            text=text,
            speaker=("Ann", "Ben")[n % 2],
            tick=n,
            date=f"2025-{1 + n * 12 // count:02d}-{1 + n // 50 % 28:02d}",
            tags=("rare",) if n % 100 == 0 else ("often",),
        )
        for n, text in enumerate(entries.texts(count))
    ]
    index = MemoryIndex(dims=DIMS)
    start = time.perf_counter()
    for record, vector in zip(records, vectors, strict=True):
        index.add(record, vector)
    add_ms = (time.perf_counter() - start) / count * 1000
    asked = draw.standard_normal(DIMS, np.float32)
    queries = entries.queries()
    for query in queries[:5]:
        index.search(query, vector=asked)
    turn = cycle(queries)
    return {
        "add_ms": add_ms,
        "query_ms": _median_ms(lambda: index.search(next(turn), vector=asked), times),
        "filtered_ms": _median_ms(lambda: index.search(next(turn), vector=asked, tags=("rare",)), 4 * times),
    }


def _vector_ms(count: int, times: int) -> float:
    """The similarity of all entries to one vector, alone."""
    import numpy as np

    from artelier.memory.index.term_index import VectorColumn

    draw = np.random.default_rng(3)
    column = VectorColumn(DIMS)
    halves = draw.standard_normal((count, DIMS), np.float32).astype("<f2")
    column.extend([row.tobytes() for row in halves])
    asked = draw.standard_normal(DIMS, np.float32)
    return _median_ms(lambda: column.matrix @ asked, times)


def _load_ms() -> float:
    """Stored blobs of 768 numbers to one float32 matrix, checked; the median of several."""
    import numpy as np

    from artelier.memory.index.term_index import VectorColumn

    count, dims = LOAD
    halves = np.random.default_rng(4).standard_normal((count, dims), np.float32).astype("<f2")
    blobs = [row.tobytes() for row in halves]
    return _median_ms(lambda: VectorColumn(dims).extend(blobs), 7)


def main() -> None:
    """Measure, and print JSON."""
    quick = "--quick" in sys.argv
    times = QUICK_TIMES if quick else TIMES
    entries = _Entries()
    small = _index_figures(entries, SMALL, times)
    figures = {
        "query_ms_p50_10k": small["query_ms"],
        "filtered_ms_p50": small["filtered_ms"],
        # Of the index in memory. What a durable entry of a store adds to it belongs beside this.
        "add_ms": small["add_ms"],
        "load_ms_10k_768": _load_ms(),
        "vector_ms_p50_100k": _vector_ms(SMALL if quick else LARGE, times),
    }
    large = small if quick else _index_figures(entries, LARGE, times)
    figures["query_ms_p50_100k"] = large["query_ms"]
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
