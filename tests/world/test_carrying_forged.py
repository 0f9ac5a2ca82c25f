"""Files of worlds that somebody has forged: refused, with what is wrong, and nothing is imported."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from artelier import Kernel
from artelier.errors import InvalidExport
from artelier.log import GENESIS
from artelier.log.event import event_hash
from artelier.world import World
from tests.kernel.files import lines_of, rewritten
from tests.world.town import exported

FULL = {
    "accounts",
    "artifacts",
    "artifact_versions",
    "artifact_sources",
    "artifact_holds",
    "worlds",
    "world_agents",
    "world_offers",
    "world_licences",
    "world_royalties",
    "world_bids",
    "world_rounds",
    "world_inbox",
    "world_usage",
    "store_entries",
    "store_removals",
    "store_counts",
}
"""Tables of which the town fills every one."""

Lines = list[dict[str, Any]]
"""The lines of an export, as objects."""


def _own(lines: Lines) -> Lines:
    return [line for line in lines if line.get("stream") == "world:w"]


def _first(lines: Lines, kind: str) -> dict[str, Any]:
    return next(line for line in lines if line.get("kind") == kind)


def _set(kind: str, **changes: Any) -> Callable[[Lines], None]:
    return lambda lines: _first(lines, kind).update(changes)


def _in_data(kind: str, **changes: Any) -> Callable[[Lines], None]:
    return lambda lines: _first(lines, kind)["data"].update(changes)


def _header(**changes: Any) -> Callable[[Lines], None]:
    return lambda lines: lines[0].update(changes)


def _ancestry(**changes: Any) -> Callable[[Lines], None]:
    return lambda lines: lines[0]["ancestry"].update(changes)


def _no_last_tick(lines: Lines) -> None:
    for line in [line for line in _own(lines) if line["at_us"] == 2]:
        lines.remove(line)


def _no_end_of_tick(lines: Lines) -> None:
    lines.remove(next(line for line in reversed(lines) if line.get("kind") == "tick.passed"))


def _no_world(lines: Lines) -> None:
    for line in _own(lines):
        lines.remove(line)


def _only_runs(lines: Lines) -> None:
    for line in [line for line in lines if line.get("stream", "").startswith(("world:", "agent:"))]:
        lines.remove(line)


def _second_world(lines: Lines) -> None:
    made = _first(lines, "world.made")
    lines.insert(lines.index(made) + 1, {**made, "stream": "world:v", "data": dict(made["data"])})


def _made_twice(lines: Lines) -> None:
    made = _first(lines, "world.made")
    lines.insert(lines.index(made) + 1, {**made, "data": dict(made["data"])})


def _in_agents_stream(kind: str) -> Callable[[Lines], None]:
    def change(lines: Lines) -> None:
        _first(lines, kind)["stream"] = "agent:dan"

    return change


def _kind_of_tenants(lines: Lines) -> None:
    event = _first(lines, "tick.passed")
    event.update(kind="tenant.updated", data={"grants": ["*"], "budget": None})


def _forged_fork(lines: Lines) -> None:
    _first(lines, "tick.passed").update(kind="world.forked", data={"world": "w", "parent": "main", "tick": 1})


def _broken_config(lines: Lines) -> None:
    _config(lines, b'{"seed": "x"}')


def _foreign_setting(lines: Lines) -> None:
    _config(lines, b'{"seed": 7, "colour": 1}')


def _config(lines: Lines, content: bytes) -> None:
    from artelier.log import DataKey, blob_name, blob_ref
    from artelier.log.blobs import name_blob

    data = _first(lines, "world.made")["data"]
    name = base64.b64encode(blob_name(data["config"])).decode()
    blob = next(line for line in lines if line.get("name") == name)
    key = next(line for line in lines if line["t"] == "key" and line["id"] == blob["key"])
    new = name_blob(DataKey(1, base64.b64decode(key["secret"])), content)
    data["config"] = blob_ref(new)
    blob.update(
        name=base64.b64encode(new).decode(), size=len(content), content=base64.b64encode(content).decode()
    )


def _double_spending(lines: Lines) -> None:
    event = next(line for line in lines if "postings" in line.get("data", {}) and line["at_us"] == 1)
    event["data"]["postings"] = [["principal:ana", "principal:bob", "scrip", 10_000]]


def _chained(change: Callable[[Lines], None]) -> Callable[[Lines], None]:
    """Change events as somebody would who knows how they are hashed."""

    def forge(lines: Lines) -> None:
        change(lines)
        heads: dict[str, tuple[int, bytes]] = {}
        count = 0
        for line in (line for line in lines if line["t"] == "event"):
            seq, last = heads.get(line["stream"], (0, GENESIS))
            data = msgspec.json.encode(line["data"], order="sorted")
            line["data"], line["seq"] = msgspec.json.decode(data), seq + 1
            hash_ = event_hash(
                last,
                stream=line["stream"],
                seq=seq + 1,
                kind=line["kind"],
                version=line["version"],
                data=data,
                at_us=line["at_us"],
                actor=line["actor"],
                cause=line["cause"],
            )
            line["hash"] = base64.b64encode(hash_).decode()
            heads[line["stream"]] = (seq + 1, hash_)
            count += 1
        lines[-1]["events"] = count

    return forge


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_set("tick.passed", at_us=7), "belongs to no tick"),
        (_set("tick.passed", at_us=-1), "belongs to no tick"),
        (_set("tick.passed", at_us=2), "tick 1 is missing"),
        (_in_data("tick.passed", tick=2), "tick 1 is missing"),
        (_in_data("tick.passed", tick="x"), "does not fit"),
        (_no_last_tick, "breaks off within a tick"),
        (_no_end_of_tick, "breaks off within a tick|does not belong|belongs to no tick"),
        (_no_world, "pays what it does not have"),
        (_only_runs, "are missing"),
        (_second_world, "nothing that runs are made of|does not belong"),
        (_made_twice, "begins with its making"),
        (_in_agents_stream("agent.joined"), "does not belong in such a stream"),
        (_in_agents_stream("tick.passed"), "does not belong in such a stream"),
        (_kind_of_tenants, "does not belong in such a stream"),
        (_forged_fork, "does not belong in such a stream"),
        (_in_data("agent.joined", agent="dan::on"), "no agent is called so"),
        (_broken_config, "settings of the world"),
        (_foreign_setting, "settings of the world"),
        (_double_spending, "pays what it does not have"),
        (_ancestry(tick=1), "belongs to no tick"),
        (_ancestry(tick=9), "breaks off within a tick"),
        (_ancestry(tick=-1), "is none"),
        (_ancestry(ancestors=[["../x", 1]]), "space"),
        (_ancestry(ancestors=[["x", 1]] * 2_000), "too many ancestors"),
        (_ancestry(parent="a/b"), "space"),
        (_header(world="v"), "nothing that runs are made of"),
        (_header(world="a b"), "space"),
        (_header(run="r"), "no header"),
        (_header(ancestry=None), "no header|cannot be read"),
    ],
)
def test_a_forged_file_is_refused_and_says_why(
    tmp_path: Path, sealed: bytes, change: Callable[[Lines], None], says: str
) -> None:
    """Every hash and the seal are made anew after the change, so that everything else must notice."""
    path = tmp_path / "w.artelier"
    path.write_bytes(sealed)
    rewritten(path, _chained(change))

    async def scenario() -> None:
        with Kernel.open(tmp_path / "b.db") as there:
            target = there.for_tenant("other")
            await target.state()
            root = await there.store.root()
            with pytest.raises(InvalidExport, match=says):
                await World.import_(target, path)
            assert await there.store.root() == root
            assert await there.store.query("SELECT count(*) FROM blobs") == [(0,)]

    asyncio.run(scenario())


def test_fields_that_hold_no_reference_are_refused_by_their_names(tmp_path: Path) -> None:
    """Every field of the file that holds a reference, one after the other, holds something else."""
    path = asyncio.run(exported(tmp_path, ticks=6))
    sealed = path.read_bytes()
    fields = {
        (line["kind"], *at): line for line in _own(lines_of(path)) for at in _places(line.get("data", {}))
    }
    said = set[str]()

    async def scenario() -> None:
        with Kernel.open(tmp_path / "b.db") as there:
            for (kind, *at), line in fields.items():
                path.write_bytes(sealed)
                wrong = ("", "x" * 300, "b:short", f"b:{'%' * 43}")[len(said) % 4]
                rewritten(path, _chained(_at(line["seq"], at, wrong)))
                field = ".".join((kind, *at))
                said.add(field)
                with pytest.raises(InvalidExport, match=f"event .*: {field} is no reference"):
                    await World.import_(there, path)
            assert not await there.store.query("SELECT * FROM worlds")

    asyncio.run(scenario())
    assert said >= {
        "world.made.config",
        "artifact.written.content",
        "artifact.written.metadata",
        "message.sent.act.reasoning",
        "message.sent.text",
        "action.taken.act.result",
    }


def _places(data: dict[str, Any]) -> list[tuple[str, ...]]:
    """Where references stand in the data of an event."""
    found = [(name,) for name, one in data.items() if isinstance(one, str) and one[:2] == "b:"]
    return found + [("act", *at) for at in _places(data["act"])] if "act" in data else found


def _at(seq: int, at: list[str], value: str) -> Callable[[Lines], None]:
    def change(lines: Lines) -> None:
        data = next(one for one in _own(lines) if one.get("seq") == seq)["data"]
        for name in at[:-1]:
            data = data[name]
        data[at[-1]] = value

    return change


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a world after two ticks."""
    folder = tmp_path_factory.mktemp("origin")
    return asyncio.run(exported(folder, ticks=2)).read_bytes()


def test_a_file_that_is_only_made_anew_is_taken(tmp_path: Path, sealed: bytes) -> None:
    """The forger of the cases above changes nothing but what they say."""
    path = tmp_path / "w.artelier"
    path.write_bytes(sealed)
    before = lines_of(path)
    rewritten(path, _chained(lambda lines: None))

    async def scenario() -> None:
        with Kernel.open(tmp_path / "b.db") as there:
            await World.import_(there, path)

    asyncio.run(scenario())
    assert lines_of(path) == before
