"""World files: what they can say, and that every mistake in one is told with its place."""

from __future__ import annotations

import asyncio
import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artelier import Kernel
from artelier.errors import InvalidConfig, NotFound
from artelier.world import World
from artelier.world.genesis import file as genesis_file
from artelier.world.genesis import found, read_world_file, read_world_text, shipped, shipped_names
from tests.world.places import balance

WHOLE = """
settle = false

[world]
seed = 5
start_balance = 30

[world.mint]
every = 4

[[agents]]
id = "ada"
scrip = 12
template = "trader"
personality = { file = "minds/ada.md" }
working_memory = { file = "minds/ada.json" }
longterm_memory = { config = { max_entries = 9 } }
reflex = { file = "minds/ada.py" }

[[agents]]
id = "clerk_{n}"
count = 3
policy = "clerk"
steering_artifact_id = "clerk_{n}_steering"

[[artifacts]]
id = "mill"
kind = "tool"
owner = "ada"
file = "mill.py"
prices = { invoke = 2 }
access = "owner_writes"
interface = { tools = [{ name = "run", description = "Grind.", inputSchema = { type = "object" } }] }
metadata = { title = "Mill" }

[[artifacts]]
id = "map"
kind = "document"
owner = "ada"
content = { north = "river" }
access = { allow = { read = ["clerk_1"] } }
"""


def folder_with(tmp_path: Path, toml: str = WHOLE) -> Path:
    (tmp_path / "minds").mkdir(exist_ok=True)
    (tmp_path / "minds/ada.md").write_text("You are {agent_id}. ü")
    (tmp_path / "minds/ada.json").write_text('{"goal": "grind", "facts": {"has_design": true}}')
    (tmp_path / "minds/ada.py").write_text("def reflex(context):\n    return {'action': 'noop'}\n")
    (tmp_path / "mill.py").write_text("def run():\n    return 'flour'\n")
    (tmp_path / "world.toml").write_text(toml)
    return tmp_path / "world.toml"


def refused(tmp_path: Path, toml: str) -> str:
    """What a file that is wrong is told: reading it, or founding a world from what was read."""

    async def scenario() -> str:
        with Kernel.open(tmp_path / "state.db") as kernel:
            with pytest.raises(InvalidConfig) as caught:
                await found(kernel, "w", read_world_file(folder_with(tmp_path, toml)))
            with pytest.raises(NotFound):
                await World.open(kernel, "w").row()
        return str(caught.value)

    return asyncio.run(scenario())


def test_a_file_makes_the_world_that_it_says(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Kernel.open(tmp_path / "state.db") as kernel:
            world = await found(kernel, "w", read_world_file(folder_with(tmp_path)))
            ada = world.as_principal("ada").artifacts

            config = await world.config()
            assert (config.seed, config.start_balance, config.mint.every) == (5, 30, 4)
            assert list(await world.agents()) == ["ada", "clerk_1", "clerk_2", "clerk_3"]
            assert (await balance(world, "ada"), await balance(world, "clerk_2")) == (12, 30)
            assert (await ada.read("ada_personality")).content == "You are {agent_id}. ü"
            assert (await ada.read("ada_working_memory")).content["goal"] == "grind"
            assert (await ada.read("ada_longterm_memory")).content["config"] == {"max_entries": 9}
            assert "def reflex" in (await ada.read("ada_reflex")).content
            assert (await ada.read("ada_workflow")).content["title"] == "Trader"
            assert (await ada.read("clerk_3")).content["steering_artifact_id"] == "clerk_3_steering"
            mill = await world.as_principal("clerk_1").artifacts.read("mill")
            assert (mill.content["code"][:9], mill.prices.invoke) == ("def run()", 2)
            assert (mill.owner, mill.metadata) == ("ada", {"title": "Mill"})
            assert (await world.as_principal("clerk_1").artifacts.invoke("mill")).result == "flour"
            assert (await world.as_principal("clerk_1").artifacts.read("map")).content["north"]
            with pytest.raises(NotFound):
                await ada.read("handbook")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("toml", "place"),
    [
        ("[world]\nsed = 1", "sed"),
        ("[world]\nseed = -1", "seed"),
        ("wrold = 1", "wrold"),
        ("[[agents]]\nid = 'a'\nscript = 1", "$.agents[0]"),
        ("[[agents]]\nname = 'a'", "$.agents[0]"),
        ("[[agents]]\nid = 'a'\nscrip = -1", "$.agents[0].scrip"),
        ("[[agents]]\nid = 'a'\nscrip = 1.5", "$.agents[0].scrip"),
        ("[[agents]]\nid = 'a'\n[[agents]]\nid = 'a'", "agents[1]: there are two artifacts a"),
        ("[[agents]]\nid = 'a b'", "agents[0]"),
        ("[[agents]]\nid = 'a'\ncount = 2", "agents[0]: 2 agents would have the id a"),
        ("[[agents]]\nid = 'a_{n}'\ncount = 999999", "$.agents[0].count"),
        ("[[agents]]\nid = 'a'\ntemplate = 'tradr'", "agents[0]: nothing of this name is shipped"),
        ("[[agents]]\nid = 'a'\ntemplate = 'trader'\nworkflow_artifact_id = 'x'", "agents[0]: `template`"),
        ("[[agents]]\nid = 'a'\nreflex = 'x'\nreflex_artifact_id = 'y'", "agents[0]: `reflex` stands beside"),
        ("[[agents]]\nid = 'a'\nreflex = 'import os'", "agents[0]: artifact a_reflex"),
        ("[[agents]]\nid = 'a'\nworkflow = {states = []}", "agents[0]: artifact a_workflow"),
        ("[[agents]]\nid = 'a'\npersonality = {file = 'nothing.md'}", "agents[0].personality: there is no"),
        ("[[agents]]\nid = 'a'\npersonality = {file = '../x.md'}", "agents[0].personality"),
        ("[[agents]]\nid = 'a'\npersonality = {file = '/etc/hostname'}", "agents[0].personality"),
        ("[[agents]]\nid = 'a'\npersonality = {file = 7}", "agents[0].personality: invalid file"),
        ("[[agents]]\nid = 'a'\npersonality = {file = 'mill.py', x = 1}", "agents[0].personality: other"),
        ("[[artifacts]]\nid = 'x'\nkind = 'document'\nowner = 'a'", "artifacts[0]: x has no content"),
        ("[[artifacts]]\nid = 'x'\nkind = 'document'\ncontent = 'c'", "$.artifacts[0]"),
        ("[[artifacts]]\nid = 'x'\nkind = 'doc'\nowner = 'a'\ncontent = 'c'", "artifacts[0]: artifact x"),
        ("[[artifacts]]\nid = 'x@1'\nkind = 'document'\nowner = 'a'\ncontent = 'c'", "artifacts[0]"),
        ("[[artifacts]]\nid = 'x'\nkind = 'document'\nowner = 'a b'\ncontent = 'c'", "artifacts[0]"),
        (
            "[[artifacts]]\nid = 'x'\nkind = 'document'\nowner = 'a'\ncontent = 'c'\nfile = 'mill.py'",
            "artifacts[0]: `file` stands beside",
        ),
        (
            "[[artifacts]]\nid = 'x'\nkind = 'document'\nowner = 'a'\ncontent = 'c'\naccess = 'free'",
            "artifacts[0]",
        ),
        (
            "[[artifacts]]\nid = 'x'\nkind = 'document'\nowner = 'a'\ncontent = 'c'\nprices = {reed = 1}",
            "artifacts[0]",
        ),
        ("[[artifacts]]\nid = 'x'\nkind = 'document'\nowner = 'a'\ncontent = 2026-01-01", "artifacts[0]"),
        (
            "[[artifacts]]\nid = 'handbook'\nkind = 'document'\nowner = 'a'\ncontent = 'c'",
            "artifacts[0]: there are two artifacts handbook",
        ),
        ("[world]\nactivation = 'staged'", "world.stages"),
        ("agents = 3", "$.agents"),
        ("[[agents]", "is no TOML"),
    ],
)
def test_every_mistake_is_told_with_its_place(tmp_path: Path, toml: str, place: str) -> None:
    assert place in refused(tmp_path, toml)


AGENT = "[[agents]]\nid = 'ada_{n}'\ncount = 2\n"


@pytest.mark.parametrize(
    ("toml", "told"),
    [
        (AGENT + "scirp = 1", ("world.toml:4: ", "`scirp`", "Did you mean `scrip`?", "personality")),
        (AGENT + "[world.mint]\nevry = 1", ("world.toml:5: ", "`evry`", "expected every, cases")),
        (AGENT + "[world]\nmint.evry = 1", ("world.toml:5: ", "`evry`", "expected every, cases")),
        (
            AGENT + "[[agents]]\nid = 'b'\n\nscrip = 'x'",
            ("world.toml:7: ", "expected whole number", "got text"),
        ),
        ("[world]\nseed = [1]", ("world.toml:2: ", "expected whole number; got list")),
        (
            AGENT + "[world]\nactivation = 'staged'\nstages = [['ada_1'], ['ada_3']]",
            ("world.toml:6: world.stages[1]", "got ada_3"),
        ),
        (AGENT + "[world.network]\nada_1 = ['ben']", ("world.toml:5: world.network.ada_1", "got ben")),
        (
            AGENT + "[[world.shocks]]\ntick = 1\npay = 1\nto = ['ad_1']",
            ("world.toml:7: world.shocks[0].to", "Did you mean ada_1?"),
        ),
        (AGENT + "[[world.shocks]]\ntick = 1", ("world.toml:4: world.shocks[0]", "does nothing")),
    ],
)
def test_a_mistake_is_told_with_its_line_and_what_may_stand_there(
    tmp_path: Path, toml: str, told: tuple[str, ...]
) -> None:
    said = refused(tmp_path, toml)

    assert [part for part in told if part not in said] == []
    assert "{'" not in said


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "secret.md").write_text("the secret")
    os.symlink(tmp_path / "secret.md", inner / "link.md")

    said = refused(inner, "[[agents]]\nid = 'a'\npersonality = {file = 'link.md'}")

    assert "leads out of the folder" in said
    assert "the secret" not in said


def test_a_file_that_is_too_large_or_no_text(tmp_path: Path) -> None:
    (tmp_path / "large.md").write_text("x" * 300_000)
    (tmp_path / "bytes.md").write_bytes(b"\xff\xfe")

    large = refused(tmp_path, "[[agents]]\nid = 'a'\npersonality = {file = 'large.md'}")
    binary = refused(tmp_path, "[[agents]]\nid = 'a'\npersonality = {file = 'bytes.md'}")

    assert "agents[0].personality: large.md: the file is larger" in large
    assert "agents[0].personality: bytes.md: the file is no UTF-8" in binary


def test_there_is_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no such world file"):
        read_world_file(tmp_path / "world.toml")
    with pytest.raises(NotFound, match="no such world file"):
        read_world_file(tmp_path / "nowhere/world.toml")


def test_data_from_elsewhere_cannot_name_files(tmp_path: Path) -> None:
    async def scenario() -> None:
        spec: dict[str, Any] = {
            "artifacts": [{"id": "x", "kind": "document", "owner": "a", "file": "/etc/hostname"}]
        }
        with Kernel.open(tmp_path / "state.db") as kernel:
            with pytest.raises(InvalidConfig, match="only a world file can name a file"):
                await found(kernel, "w", spec)

    asyncio.run(scenario())


def test_a_thousand_agents_are_one_entry_and_one_commit(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Kernel.open(tmp_path / "state.db") as kernel:
            spec = {"agents": [{"id": "a_{n}", "count": 1_000, "policy": "p"}], "settle": False}
            world = await found(kernel, "w", spec)

            rows = await world.host.services.store.query("SELECT COUNT(*) FROM commits", ())
            assert len(await world.agents()) == 1_000
            assert await balance(world, "a_1000") == 100
            assert rows[0][0] <= 2

    asyncio.run(scenario())


def test_the_shipped_worlds_can_be_read() -> None:
    for name in shipped_names():
        assert shipped(name)["agents"]

    with pytest.raises(NotFound, match="no such world is shipped"):
        shipped("../market")


def test_a_memory_store_of_a_file_whose_embedder_nobody_knows_makes_no_world(tmp_path: Path) -> None:
    store = {"id": "m", "kind": "memory_store", "owner": "ana"}
    spec = {"artifacts": [{**store, "content": {"config": {"embedder": "nobodys"}}}]}

    async def scenario() -> None:
        with Kernel.open(tmp_path / "state.db") as kernel:
            with pytest.raises(InvalidConfig, match=r"artifacts\[0\]: m names no embedder") as refused:
                await found(kernel, "w", spec)
            assert "hashing, minilm" in str(refused.value)
            with pytest.raises(NotFound):
                await World.open(kernel, "w").row()

    asyncio.run(scenario())


_SIGNS = st.text(alphabet="'\".=,[{#\\ a\n", max_size=12)
_TEXT = st.one_of(
    _SIGNS.map(json.dumps),
    _SIGNS.map(lambda text: f"'{text}'"),
    _SIGNS.map(lambda text: f'"""{text}"""'),
    _SIGNS.map(lambda text: f"'''{text}'''"),
)
_KEY = st.lists(st.one_of(st.sampled_from("abc"), _TEXT), min_size=1, max_size=3).map(" . ".join)
_VALUE = st.one_of(
    st.sampled_from(["1", "0.5"]),
    _TEXT,
    st.lists(_TEXT, max_size=3).map(lambda all_: f"[{', '.join(all_)}]"),
    st.tuples(_KEY, _TEXT).map(lambda pair: f"{{{pair[0]} = {pair[1]}}}"),
)
_LINE = st.one_of(
    st.tuples(_KEY, _VALUE).map(" = ".join),
    _KEY.map("[{}]".format),
    _KEY.map("[[{}]]".format),
    _SIGNS.map(lambda text: f"#{text}"),
)


def _objects_of(data: object) -> int:
    """Count the keys and elements of parsed TOML."""
    if isinstance(data, dict):
        return sum(1 + _objects_of(value) for value in data.values())
    return sum(1 + _objects_of(value) for value in data) if isinstance(data, list) else 0


@given(st.lists(_LINE, min_size=1, max_size=4).map("\n".join))
def test_whatever_the_texts_of_a_file_hold_its_keys_and_elements_are_counted(toml: str) -> None:
    try:
        made = _objects_of(tomllib.loads(toml))
    except tomllib.TOMLDecodeError:
        return  # what is no TOML is counted up to where the parser stops

    assert _objects_of(read_world_text(toml)) == made
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(genesis_file, "ITEMS_MAX", made - 1)
        with pytest.raises(InvalidConfig, match="too many keys"):
            read_world_text(toml)


def test_texts_and_comments_may_have_as_many_dots_as_they_like() -> None:
    dots = "and so on... [a, b] {c = d} " * 10_000
    written = f'a = \'\'\'{dots}\'\'\'\nb = \'{dots}\'\nc = "{dots}"\n# {dots}\nd = """{dots}"""""\n'

    assert read_world_text(written) == {"a": dots, "b": dots, "c": dots, "d": f'{dots}""'}
    assert len(read_world_text(f"a = [{'0.5, ' * 20_000}]")["a"]) == 20_000
