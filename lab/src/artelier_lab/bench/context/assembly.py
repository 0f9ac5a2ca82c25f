"""The cost of `assemble` for two hundred sections with a hundred thousand tokens."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from artelier.context import Section, assemble, section_tokens
from artelier.context.assembly import Truncation
from artelier.kernel import RangePart, message_tokens
from artelier.ports.model import ChatMessage
from artelier_lab.bench.figures import median

SECTIONS = 200
TOKENS = 100_000
MESSAGES = 200
"""Of the one section that is a conversation."""

_WHERE: tuple[Truncation, ...] = ("end", "middle", "start", "drop")


def sections_of(count: int = SECTIONS, *, tokens: int = TOKENS) -> list[Section]:
    """Sections of many sizes and priorities, some pinned, some volatile, one of them a conversation."""
    draw = random.Random(4)
    each = tokens // count
    made = [_section(index, each, draw) for index in range(count - 1)]
    messages = tuple(
        ChatMessage(role="user" if index % 2 else "assistant", content=_text(each // 10, draw))
        for index in range(MESSAGES)
    )
    shown = RangePart(
        conversation="main",
        start=1,
        end=len(messages),
        messages=messages,
        tokens=sum(map(message_tokens, messages)),
    )
    conversation = Section(tag="conversation", range=shown, stability="append_only", priority=70)
    made.insert(count // 2, conversation)
    return made


def _section(index: int, tokens: int, draw: random.Random) -> Section:
    return Section(
        tag=f"s{index}",
        text=_text(draw.randrange(tokens // 4, tokens * 3 // 2), draw),
        role="user" if index % 9 == 8 else "system",
        priority=index * 7 % 100,
        pinned=index % 20 == 0,
        truncation=_WHERE[index % 4],
        stability="volatile" if index % 10 == 9 else "fixed",
        max_tokens=tokens if index % 5 == 0 else None,
        sources=("bench",),
    )


def _text(tokens: int, draw: random.Random) -> str:
    """Words, every fourth text with letters beyond ASCII."""
    letters = "etaoin shrdlu " * 3 + ("äß語 " if draw.randrange(4) == 0 else "")
    return "".join(draw.choices(letters, k=tokens * 4))


def bench_assembly(*, times: int, progress: Callable[[str], None]) -> dict[str, float]:
    """CPU of one assembly: over a budget that half of it does not fit into, and without any."""
    progress(f"context: assembly of {SECTIONS} sections")
    sections = sections_of()
    tokens = sum(map(section_tokens, sections))
    cutting = _cpu_ms(sections, tokens // 2, times=times)
    whole = _cpu_ms(sections, None, times=times)
    return {
        "assemble_ms_200_sections_100k_tokens": max(cutting, whole),
        "assemble_ms_over_budget": cutting,
        "assemble_ms_without_budget": whole,
        "assemble_tokens": float(tokens),
    }


def _cpu_ms(sections: list[Section], budget_tokens: int | None, *, times: int) -> float:
    found: list[float] = []
    for _ in range(times):
        start_s = time.thread_time()
        assemble(sections, budget_tokens=budget_tokens)
        found.append((time.thread_time() - start_s) * 1000)
    return median(found)
