"""The context benchmark: its figures are of real prompts, and each of its own claims can fail."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from artelier.context import assemble, section_tokens
from artelier.ports.model import ChatMessage, ModelRequest
from artelier_lab.bench import run_bench
from artelier_lab.bench.context.assembly import SECTIONS, bench_assembly, sections_of
from artelier_lab.bench.context.counting import KINDS, Counter, bench_counting, reading
from artelier_lab.bench.context.prefix import bench_prefix, prompts_of
from artelier_lab.bench.context.progressive import CALLS, bench_progressive, requests_of
from artelier_lab.bench.context.requests import cached_cost, read_order, shared, tokens_of
from artelier_lab.bench.kernel.turns import Turns, WorkingModel, bench_turns, differing_bytes, work
from artelier_lab.bench.kernel.turns import open_kernel as open_turns

CONTEXT_FIGURES = {
    "assemble_ms_200_sections_100k_tokens",
    "manifest_bytes_per_step",
    "prefix_shared_ratio",
    "prefix_turns_compacted",
    "prefix_turns_memory",
    "token_estimate_error",
    "token_estimate_error_max",
    "skills_first_prompt_saving",
    "skills_task_saving",
    "cpu_ms_per_turn_at_100",
    "cpu_ms_per_turn_at_2000",
    "growth_cpu_2000_over_100",
    "bytes_per_turn_at_100",
    "bytes_per_turn_at_2000",
    "prompt_tokens_max",
    "render_differing_bytes",
}


def quiet(text: str) -> None:
    pass


def request(*texts: str) -> ModelRequest:
    return ModelRequest(model="m", messages=tuple(ChatMessage(role="user", content=text) for text in texts))


def test_what_is_assembled_has_the_size_that_the_figure_names() -> None:
    sections = sections_of()
    tokens = sum(map(section_tokens, sections))

    cut = assemble(sections, budget_tokens=tokens // 2)

    assert len(sections) == SECTIONS
    assert 95_000 < tokens < 110_000
    assert any(part.cut for part in cut.parts) and cut.dropped, "the budget forces cutting"
    assert bench_assembly(times=2, progress=quiet)["assemble_ms_over_budget"] > 0


def test_a_shared_prefix_ends_at_the_first_difference() -> None:
    assert shared(b"abcdef", b"abcxef") == b"abc"
    assert shared(b"abc", b"abcdef") == b"abc"
    assert shared(b"xbc", b"abc") == b""


def test_a_prefix_that_is_sent_again_costs_a_tenth() -> None:
    first, second = request("one " * 400), request("one " * 400, "two")
    other = request("two " * 400)

    assert cached_cost([first]) == tokens_of(first)
    again = cached_cost([first, second]) - cached_cost([first])
    anew = cached_cost([first, other]) - cached_cost([first])
    assert again < 0.2 * anew


def test_prefixes_are_those_of_the_requests_that_were_sent(tmp_path: Path) -> None:
    prompts = asyncio.run(prompts_of(tmp_path / "run", turns=30))

    tails = [prompt for prompt in prompts if prompt.tail]
    assert len(tails) > 20, "memories are recalled into the tail"
    for prompt in tails:
        assert prompt.request.messages[-1].text.endswith(prompt.tail)
    texts = [message.text for message in prompts[-1].request.messages]
    assert any("Read up to row 25." in text for text in texts), "core memory is in the prompt"
    assert any("jira_create_issue" in text for text in texts), "skills are listed"
    assert len(read_order(prompts[-1].request)) > 5_000


def test_compactions_and_memory_writes_are_counted_apart(tmp_path: Path) -> None:
    figures = bench_prefix(tmp_path, turns=30, progress=quiet)

    assert figures["prefix_turns_compacted"] >= 1
    assert figures["prefix_turns_memory"] == 1
    assert figures["prefix_turns"] == 30 - 1 - figures["prefix_turns_compacted"]
    assert figures["prefix_shared_ratio_min"] > 0.95
    assert 100 < figures["manifest_bytes_per_step"] <= 400
    assert figures["manifest_bytes_per_step_recalled"] > figures["manifest_bytes_per_step"]


def test_both_agents_do_the_whole_task_with_fifty_tools(tmp_path: Path) -> None:
    figures = bench_progressive(tmp_path, progress=quiet)
    native = asyncio.run(requests_of(tmp_path / "again.db", progressive=False))

    assert len(native[0].tools) >= 50
    assert figures["native_task_requests"] == len(CALLS) + 1
    assert figures["skills_task_requests"] == len(CALLS) + 3 + 1, "three skills were loaded"
    assert figures["native_task_tokens"] == sum(map(tokens_of, native))
    assert 0.85 <= figures["skills_first_prompt_saving"] < 1
    assert figures["skills_task_saving"] < figures["skills_first_prompt_saving"]


def test_an_agent_is_measured_young_and_old(tmp_path: Path) -> None:
    figures = bench_turns(tmp_path, Turns(middle=90, pairs=1), progress=quiet)

    assert figures["cpu_ms_per_turn_at_2000"] > 0 < figures["cpu_ms_per_turn_at_100"]
    assert 760 < figures["bytes_per_turn_at_2000"] < 20_000
    assert figures["render_differing_bytes"] == 0
    assert 1_000 < figures["prompt_tokens_max"] <= 16_000


def test_a_prompt_that_renders_otherwise_is_counted(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = WorkingModel(3)
        with open_turns(tmp_path / "s.db", model) as kernel:
            await work(kernel, turns=3)
            received = list(model.hashes)
            assert await differing_bytes(kernel, received, run_id="long") == 0

            size, _ = received[1]
            received[1] = (size, "0" * 64)
            assert await differing_bytes(kernel, received, run_id="long") == size
            assert await differing_bytes(kernel, [*model.hashes, (7, "")], run_id="long") == 7

    asyncio.run(scenario())


def test_texts_to_count_are_the_same_each_time_and_differ() -> None:
    for kind in KINDS:
        texts = [reading(kind, number) for number in range(5)]
        assert texts == [reading(kind, number) for number in range(5)]
        assert len(set(texts)) == 5
        assert all(100 < len(text) < 4_000 for text in texts)


@pytest.mark.slow
def test_the_provider_counts_with_a_tokenizer_of_its_own(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    counter = Counter()

    words = counter.text("the customer returned the order")
    figures = bench_counting(tmp_path, turns=12, progress=quiet)

    assert 5 <= words <= 12
    assert counter.request(request("the order", "the order")) > 2 * counter.text("the order") + 8
    assert 0 < figures["token_estimate_error"] <= figures["token_estimate_error_max"]


@pytest.mark.slow
def test_the_quick_benchmark_has_every_figure(tmp_path: Path) -> None:
    result = run_bench("context", quick=True, directory=tmp_path)

    assert result.keys() >= CONTEXT_FIGURES
    assert result["area"] == "context" and result["unmeasured"] == []
    assert result["targets"]["growth_cpu_2000_over_100"]["met"] is None, "measured at another size"
    missed = {name for name, target in result["targets"].items() if target["met"] is False}
    assert missed <= {"assemble_ms_200_sections_100k_tokens"}, "the machine may be slow at times"
    assert list(tmp_path.iterdir()) == [], "databases are removed again"
