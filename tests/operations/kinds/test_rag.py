"""`rag`: ranked passages of memories, documents, lorebooks and the chat that the principal may read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel
from artelier.errors import InvalidRequest
from artelier.memory.embedders import embedder_named
from artelier.operations.kinds import kind_named
from artelier.operations.kinds.rag import (
    PASSAGE_CHARS_MAX,
    PASSAGES_MAX,
    Passage,
    Searcher,
    passages_in,
    pieces,
)
from artelier.operations.lore.schemas import register_writing
from artelier.tokens import estimate_tokens
from tests.kernel.stage import open_kernel, play
from tests.operations.kinds.stage import PRINCIPAL, SAID, Bench, art, operate, problems, scope

HANDBOOK = """# Swords
A sword must be oiled every month, or it rusts.

# Horses
Horses eat hay and oats. A tired horse will not cross a river.

# Taverns
The tavern closes at midnight {{ art.secret.value }}.
"""


async def _write(kernel: Kernel, id: str, content: Any, *, by: str = PRINCIPAL, **more: Any) -> None:
    kind = more.pop("kind", "document")
    space = kernel.for_tenant().as_principal(by)
    await space.artifacts.write(id, content=content, kind=kind, **more)


def _texts(value: Sequence[dict[str, Any]]) -> list[str]:
    return [one["text"] for one in value]


def _documents(*refs: str, **more: Any) -> dict[str, Any]:
    return {"source": {"documents": list(refs)}, **more}


def test_documents_give_ranked_passages_with_refs(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            await _write(kernel, "handbook", HANDBOOK)
            await _write(kernel, "notes", {"rust": "Salt water makes a sword rust.", "tea": "is hot"})
            bench = Bench(kernel)
            found = await bench.value("rag", _documents("handbook", "notes@1", query="a sword rusts"))
            assert {one["ref"] for one in found} == {"handbook@1", "notes@1"}
            assert found[0]["score"] == 1.0
            assert found == sorted(found, key=lambda one: -one["score"])
            assert all(round(one["score"], 4) == one["score"] <= 1 for one in found)
            assert "oiled every month" in "\n".join(_texts(found[:2]))
            # What a document says is data: nothing renders it.
            tavern = await bench.value("rag", _documents("handbook", query="tavern midnight"))
            assert "{{ art.secret.value }}" in tavern[0]["text"]

    play(scenario())


def test_answer_is_bounded_by_limit_tokens_and_score(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            await _write(kernel, "swords", [f"sword number {n} is old" for n in range(30)])
            bench = Bench(kernel)
            base = _documents("swords", query="old sword number 7")
            every = await bench.value("rag", {**base, "limit": 50})
            assert len(every) == 30
            assert len(await bench.value("rag", {**base, "limit": 3})) == 3
            some = await bench.value("rag", {**base, "limit": 50, "max_tokens": 20})
            assert 0 < sum(estimate_tokens(text) for text in _texts(some)) <= 20
            best = await bench.value("rag", {**base, "limit": 50, "min_score": 1.0})
            assert best[0] == every[0]
            assert all(one["score"] == 1.0 for one in best)
            assert await bench.value("rag", _documents("swords", query=" ")) == []
            assert await bench.value("rag", _documents("swords", query="x" * 60_000)) == []

    play(scenario())


def test_only_what_the_principal_may_read_is_searched(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            await _write(kernel, "diary", "The sword is under the bed.", by="agent:other", access="private")
            await _write(
                kernel, "sold", "A sword costs ten.", by="agent:other", access="public", prices={"read": 3}
            )
            await _write(kernel, "picture", b"\x00\x01")
            await kernel.memory.for_agent("default", "other").remember("a sword", key="k")
            other = kernel.for_tenant("other-tenant").as_principal("agent:x")
            await other.artifacts.write("abroad", kind="document", content="sword", access="public")
            bench = Bench(kernel)
            cases: list[tuple[dict[str, Any], str]] = [
                ({"documents": ["diary"]}, "access_denied"),
                ({"documents": ["sold"]}, "access_denied"),
                ({"documents": ["nothing"]}, "not_found"),
                ({"documents": ["abroad"]}, "not_found"),
                ({"documents": ["picture"]}, "invalid_request"),
                ({"memory": "other"}, "access_denied"),
                ({"lorebook": "diary"}, "access_denied"),
                ({"lorebook": "picture"}, "invalid_artifact"),
            ]
            for source, code in cases:
                params = {"source": source, "query": "sword"}
                assert await bench.code("rag", params) == code, source
            poor = {**_documents("sold", query="sword"), "price_max": 3}
            assert await bench.code("rag", poor) == "insufficient_funds"

    play(scenario())


def test_memory_of_an_agent_is_searched(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            bench = Bench(kernel)
            params = {"source": {"memory": "reader"}, "query": "Which sword does {{ user.name }} own?"}
            assert await bench.value("rag", params) == []  # nothing was ever remembered
            memory = kernel.memory.for_agent("default", "reader")
            kept = await memory.remember("Ann owns the sword Dawn.", key="k1")
            await memory.remember("Tea is served at five.", key="k2")
            found = await bench.value("rag", params)
            assert (found[0]["ref"], found[0]["score"]) == (kept.id, 1.0)
            assert found[0]["text"] == "Ann owns the sword Dawn."

    play(scenario())


def test_messages_of_the_chat_are_searched(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            bench = Bench(kernel)
            found = await bench.value("rag", {"source": {"messages": True}, "query": "loud tavern"})
            assert found[0] == {"text": SAID[1]["content"], "score": 1.0, "ref": "message:2"}
            # The words that ask are no answer to themselves.
            asked = await bench.value("rag", {"source": {"messages": True}})
            assert "message:3" not in {one["ref"] for one in asked}

    play(scenario())


def test_lorebook_gives_the_entries_that_the_chat_names(tmp_path: Path) -> None:
    entries = [
        {"id": "sword", "keys": ["sword"], "content": "{{user}}'s sword is called Dawn.", "priority": 5},
        {"id": "tavern", "keys": ["tavern"], "content": "The tavern is the Red Lion."},
        {"id": "moon", "keys": ["moon"], "content": "There are two moons."},
        {"id": "law", "constant": True, "content": "Magic is forbidden.", "priority": 1},
    ]

    async def scenario() -> None:
        register_writing()
        with open_kernel(tmp_path) as kernel:
            await _write(kernel, "lore", {"entries": entries}, kind="lorebook")
            bench = Bench(kernel)
            found = await bench.value("rag", {"source": {"lorebook": "lore"}})
            assert [one["ref"] for one in found] == ["lore@1/sword", "lore@1/law", "lore@1/tavern"]
            assert found[0]["text"] == "Ann's sword is called Dawn."
            asked = {"source": {"lorebook": "lore"}, "query": "the moon", "limit": 50}
            assert "lore@1/moon" in {one["ref"] for one in await bench.value("rag", asked)}
            await _write(kernel, "plain", "no lorebook")
            assert await bench.code("rag", {"source": {"lorebook": "plain"}}) == "invalid_artifact"

    play(scenario())


def test_what_was_found_is_read_once(tmp_path: Path) -> None:
    """A resume takes the passages that were there, whatever the document says by now."""

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            await _write(kernel, "handbook", HANDBOOK)
            runs, params = kernel.for_tenant(), _documents("handbook", query="horse river")
            async with runs.run("r", on_wait="suspend") as run:
                before = await operate(run, "rag", params, desk=runs)
                raise_on_purpose = await run.step("mark", lambda: 1)
                assert raise_on_purpose == 1
            shown = await runs.show("r")
            assert shown["status"] == "completed"
            await _write(kernel, "handbook", "A horse is a horse.")

            async def again(run: Any) -> None:
                found = await operate(run, "rag", params)  # without a desk: nothing is asked
                assert found.value == before.value
                await run.step("mark", lambda: 1)

            await runs.replay("r", again)

    play(scenario())


def test_internal_values_may_ask_but_are_no_passages(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            await _write(kernel, "handbook", HANDBOOK)
            params = _documents("handbook", query="{{ art.topic.value }}")
            found = await Bench(kernel).value("rag", params, seen=scope(art={"topic": art("hay oats")}))
            assert "hay" in found[0]["text"]

    play(scenario())


# Passages


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("a\n\nb", ["a\n\nb"]),
        ("# A\none\n\n# B\ntwo", ["# A\none", "# B\ntwo"]),
        ("   \n \n...\n", []),
        (["x", {"n": 1}, 3], ["x", '{"n":1}', "3"]),
        ({"a": "b", "c": [1]}, ["a: b", "c: [1]"]),
        (None, []),
        ("", []),
    ],
)
def test_contents_are_cut_into_passages(content: Any, texts: list[str]) -> None:
    assert [one.text for one in passages_in(content, ref="r@1")] == texts


@pytest.mark.parametrize(
    "text", ["word " * 5_000, "x" * 10_000, "\n\n".join(["p" * 700] * 9), "\r\n \n" * 3_000, "# " * 4_000]
)
def test_no_passage_is_too_long_and_nothing_is_lost(text: str) -> None:
    found = list(pieces(text))
    assert all(len(one) <= PASSAGE_CHARS_MAX for one in found)
    assert "".join("".join(found).split()) == "".join(text.split())


def test_too_many_passages_are_refused() -> None:
    many = [Passage(text=f"p{n}", ref="r") for n in range(PASSAGES_MAX + 1)]
    with pytest.raises(InvalidRequest, match="too much to search"):
        play(Searcher().search(many, "p", limit=1, embedder=embedder_named("hashing")))


class _Counting:
    """Counts what the real embedder is asked."""

    def __init__(self) -> None:
        self.inner = embedder_named("hashing")
        self.name, self.dims, self.texts = self.inner.name, self.inner.dims, list[str]()

    async def embed(self, texts: Sequence[str], /) -> list[Any]:
        self.texts += texts
        return await self.inner.embed(texts)


def test_a_passage_is_embedded_once() -> None:
    async def scenario() -> None:
        searcher, embedder = Searcher(), _Counting()
        said = [Passage(text=f"message {n} about horses", ref=f"message:{n}") for n in range(20)]
        for upto in (18, 19, 20, 20):
            found = await searcher.search(said[:upto], "horses", limit=3, embedder=embedder)
            assert len(found) == 3
        assert sorted(text for text in embedder.texts if text != "horses") == sorted(one.text for one in said)

    play(scenario())


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ({}, "source: bad_source"),
        ({"messages": False}, "source: bad_source"),
        ({"messages": True, "memory": "a"}, "source: bad_source"),
        ({"documents": ["ok", "a#b#c@@"]}, "source.documents[1]: bad_ref"),
        ({"documents": ["main:x"]}, "source.documents[0]: bad_ref"),
        ({"lorebook": "x@0"}, "source.lorebook: bad_ref"),
    ],
)
def test_problems_of_rag_params(source: dict[str, Any], problem: str) -> None:
    assert problem in problems("rag", {"source": source})


@pytest.mark.parametrize(
    "more",
    [
        {"source": {"web": "x"}},
        {"source": {"documents": []}},
        {"source": {"documents": "x"}},
        {"source": {"documents": ["x"] * 33}},
        {"limit": 0},
        {"limit": 51},
        {"min_score": 2},
        {"min_score": float("nan")},
        {"max_tokens": 0},
        {"price_max": -1},
        {"query": None},
    ],
)
def test_rag_params_out_of_form_are_refused(more: dict[str, Any]) -> None:
    from pydantic import ValidationError

    with pytest.raises(ValidationError):
        kind_named("rag").params.model_validate({"source": {"messages": True}, **more})
