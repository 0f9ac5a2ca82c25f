"""The area `memory`: how well and how fast memory is searched."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from artelier.errors import InvalidConfig, InvalidRequest
from artelier_lab.bench.figures import Target, judge, rounded
from artelier_lab.bench.machine import machine_facts
from artelier_lab.bench.memory.speed import measure_speed
from artelier_lab.bench.memory.talks import made_up_conversations

DATA_VARIABLE = "ARTELIER_BENCH_CONVERSATIONS"
DATA_BYTES_MAX = 256 * 1024 * 1024

QUALITY = ("r_at_1", "r_at_10", "ndcg_at_10", "mrr", "adversarial_r_at_10")

TARGETS = {
    "r_at_10": Target(at_least=75.9),
    "ndcg_at_10": Target(at_least=60.4),
    "minilm_r_at_1": Target(at_least=44.2),
    "minilm_r_at_10": Target(at_least=80.5),
    "minilm_ndcg_at_10": Target(at_least=65.2),
    "minilm_adversarial_r_at_10": Target(at_least=75),
    "query_ms_p50_10k": Target(at_most=10),
    "query_ms_p50_100k": Target(at_most=60),
    "vector_ms_p50_100k": Target(at_most=25),
    "filtered_ms_p50": Target(at_most=0.5),
    "add_ms": Target(at_most=0.2),
    "load_ms_10k_768": Target(at_most=50),
}

UNITS = {
    "r_at_1": "percent of the evidence found first, without any model",
    "r_at_10": "percent of the evidence among the first 10, without any model",
    "adversarial_r_at_10": "the same for questions that name the wrong person",
    "query_ms_p50_10k": "hybrid query over 10,000 entries, without embedding it",
    "query_ms_p50_100k": "the same over 100,000",
    "vector_ms_p50_100k": "similarity to 100,000 vectors of 384 numbers",
    "filtered_ms_p50": "hybrid query over the 1 % of 10,000 entries that carry a tag",
    "add_ms": "one entry with its vector into the index, in memory",
    "load_ms_10k_768": "10,000 stored vectors of 768 numbers into one matrix",
}

SIZED = ("query_ms_p50_100k", "vector_ms_p50_100k")
"""Figures that mean what they are called only at full size."""


def bench_memory(
    *, quick: bool, directory: Path, progress: Callable[[str], None], data: str | Path | None = None
) -> dict[str, Any]:
    """Figures of quality and speed, `targets`, `units`, `machine`, and `note` on what was searched.

    `data`: a JSON file of conversations with questions; else the one that the environment variable
    ARTELIER_BENCH_CONVERSATIONS names, else made-up ones, on which quality is not judged.
    """
    conversations, note = _conversations(data)
    progress("memory: quality without a model")
    quality: dict[str, dict[str, float] | None] = {"hashing": _quality(conversations, "hashing")}
    progress("memory: quality with minilm")
    try:
        quality["minilm"] = _quality(conversations, "minilm")
    except InvalidConfig as error:
        quality["minilm"] = None
        note = f"{note}; minilm was left out: {error}"
    progress("memory: speed, on one thread")
    figures = {**_flat(quality), **measure_speed(quick=quick)}
    figures = {name: rounded(value) for name, value in figures.items()}
    unjudged = SIZED if quick else ()
    if conversations is _made_up:
        unjudged = (*unjudged, *(name for name in figures if name.endswith(QUALITY)))
    return {
        **figures,
        **quality,
        "data": note,
        "note": note,
        "targets": judge(figures, TARGETS, unjudged=unjudged),
        "units": UNITS,
        "machine": machine_facts(directory),
    }


_made_up = made_up_conversations()


def _conversations(data: str | Path | None) -> tuple[list[dict[str, Any]], str]:
    named = data or os.environ.get(DATA_VARIABLE, "").strip()
    if not named:
        return _made_up, (
            f"made-up conversations: quality is not judged (--data FILE or {DATA_VARIABLE} names real ones)"
        )
    path = Path(named)
    if not path.is_file() or path.stat().st_size > DATA_BYTES_MAX:
        raise InvalidRequest(
            "the conversations cannot be read",
            expected=f"a file of at most {DATA_BYTES_MAX} bytes",
            got=str(path),
        )
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InvalidRequest("the conversations are no JSON", got=str(path)) from error
    if not isinstance(found, list) or not found:
        raise InvalidRequest("the file holds no list of conversations", got=str(path))
    return found, f"{len(found)} conversations of {path}"  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - `evaluate` checks what is in it


def _quality(conversations: list[dict[str, Any]], embedder: str) -> dict[str, float]:
    from artelier.memory.evaluation import evaluate

    return evaluate(conversations, embedder=embedder)


def _flat(quality: Mapping[str, Mapping[str, float] | None]) -> dict[str, float]:
    """Quality by one name each: the default's plain, another embedder's with its name before."""
    return {
        name if embedder == "hashing" else f"{embedder}_{name}": found[name]
        for embedder, found in quality.items()
        if found is not None
        for name in QUALITY
    }
