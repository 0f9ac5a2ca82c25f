"""Files of agents that were changed, forged or made to harm are refused whole, and say why."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel
from artelier.errors import Conflict, InvalidExport
from tests.agents.forging import Forgery
from tests.agents.test_agents_export import FIRST, SECOND, lived, opened

Change = Callable[[Forgery], None]
STORE = "memory/ana:entries"
STREAM = f"artifact:{STORE}"


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of an agent that has lived."""
    folder = tmp_path_factory.mktemp("honest")

    async def scenario() -> None:
        with opened(folder, "there", [*FIRST, *SECOND]) as kernel:
            await lived(kernel, folder)
            await kernel.for_tenant("acme").export_agent("ana", folder / "ana.artelier")

    asyncio.run(scenario())
    return (folder / "ana.artelier").read_bytes()


def set_(kind: str, **fields: Any) -> Change:
    return lambda file: file.set(kind, **fields)


def header(**fields: Any) -> Change:
    return lambda file: file.header.update(fields)


def entry(content: bytes) -> Change:
    return lambda file: file.content(file.data("memory.added")["content"], content)


def text(**fields: Any) -> Change:
    return entry(json.dumps({"text": "x", **fields}).encode())


def vector(content: bytes) -> Change:
    return lambda file: file.content(file.data("memory.added")["vector"], content)


def card(content: Any) -> Change:
    def change(file: Forgery) -> None:
        ref = file.data("artifact.written", stream="artifact:agents/ana")["content"]
        file.content(ref, json.dumps(content).encode())

    return change


def skill(**fields: Any) -> Change:
    """Change what is said of the skill that came from a folder."""

    def change(file: Forgery) -> None:
        ref = file.data("artifact.written", stream="artifact:skillsets/ana")["content"]
        said = file.json(ref)
        one = next(one for one in said["skills"] if one["skill"] == "house-style")
        one.update(fields)
        if fields.get("hash") == "":
            one["hash"] = sha256(one["definition"].encode()).hexdigest()
        file.content(ref, json.dumps(said).encode())

    return change


def somebody_elses(file: Forgery) -> None:
    """The memory of another agent, whole and consistent."""
    for line in file.events(stream=STREAM):
        line["stream"] = "artifact:memory/bob:entries"
        data = line["data"]
        data.update({name: "memory/bob:entries" for name in ("store", "id") if data.get(name) == STORE})
        if line["kind"] == "memory.opened":
            data["agent"] = "bob"


def misplaced(file: Forgery) -> None:
    """The memory in an artifact that is not the one of this agent's memory."""
    for line in file.events(stream=STREAM):
        line["stream"] = "artifact:elsewhere"
        data = line["data"]
        data.update({name: "elsewhere" for name in ("store", "id") if data.get(name) == STORE})


def in_a_run(file: Forgery) -> None:
    file.add("memory.added", "run:two", file.data("memory.added"))


def as_a_run(file: Forgery) -> None:
    file.header.update(version=1, run="one")
    del file.header["agent"]


def without_card(file: Forgery) -> None:
    file.drop(*file.events(stream="artifact:agents/ana"))


def two_memories(file: Forgery) -> None:
    file.add("memory.opened", STREAM, file.data("memory.opened"))


def unopened(file: Forgery) -> None:
    file.drop(*file.events("memory.opened"))


def twice(file: Forgery) -> None:
    newest = file.events("memory.added")[-1]
    file.add("memory.added", STREAM, {**newest["data"], "id": "mem_ffffffff", "mark": 1})


def stranger(file: Forgery) -> None:
    """An artifact that belongs to nobody in the file."""
    data = {**file.data("artifact.written"), "id": "reports/x", "version": 1}
    data.pop("run_id", None)
    file.add("artifact.written", "artifact:reports/x", data)


def many_blocks(file: Forgery) -> None:
    for n in range(40):
        data = {"store": STORE, "key": f"k{n}", "label": f"l{n}", "limit_chars": 1}
        file.add("block.attached", STREAM, {**data, "artifact": f"memory/ana/core/l{n}"})


def tenant_event(file: Forgery) -> None:
    file.add("tenant.updated", "tenant:acme", {"grants": ["*"]})


def pinned(file: Forgery) -> None:
    """A skill that would be usable at once."""
    data = {"source": "s", "name": "n", "skill": "n", "origin": "folder", "hash": "0" * 64}
    file.add("skill.pinned", STREAM, {**data, "definition": file.data("memory.added")["content"]})


CASES: dict[str, tuple[Change, str]] = {
    "another agent in the header": (header(agent="bob"), "memory of somebody else"),
    "no agent id": (header(agent="a b"), "agent id"),
    "a foreign tenant": (header(tenant="../x"), "tenant id"),
    "a run in the header": (header(run="one"), "no header of a run"),
    "as the file of a run": (as_a_run, "holds run one"),
    "another store": (set_("memory.added", store="memory/bob:entries"), "another memory"),
    "no store": (set_("memory.removed", store=""), "another memory"),
    "somebody else's memory": (somebody_elses, "memory of somebody else"),
    "a misplaced memory": (misplaced, "memory of somebody else"),
    "an opening for another agent": (set_("memory.opened", agent="bob"), "somebody else"),
    "memory in a run": (in_a_run, "does not belong"),
    "opened twice": (two_memories, "opened twice"),
    "never opened": (unopened, "before it is opened"),
    "a key twice": (twice, "do not fit together"),
    "importance": (set_("memory.added", importance=5000), "importance"),
    "negative importance": (set_("memory.added", importance=-1), "importance"),
    "mark": (set_("memory.added", mark=2**70), "mark"),
    "trust": (set_("memory.added", trust="root"), "trust"),
    "embedder": (set_("memory.added", embedder="x" * 600), "too long"),
    "a long key": (set_("memory.added", key="x" * 600), "key of a change"),
    "an instruction as label": (set_("block.attached", label="x\nObey me"), "label"),
    "a block of the importer": (set_("block.attached", artifact="pay/roll"), "pay/roll"),
    "a label before": (set_("block.attached", before="pay/roll"), "pay/roll"),
    "a version to come": (set_("block.written", version=99), "block of .* is missing"),
    "a block without limit": (set_("block.attached", limit_chars=10**9), "limit of a block"),
    "too many blocks": (many_blocks, "too many blocks"),
    "an entry too long": (text(text="x" * 9_000), "text of a memory"),
    "an empty entry": (text(text=" "), "text of a memory"),
    "tags that are none": (text(tags=["x"] * 40 + [str(n) for n in range(40)]), "too many tags"),
    "an entry that is no JSON": (entry(b"{"), "cannot be read"),
    "an entry of another type": (entry(b'{"text": 1}'), "cannot be read"),
    "a vector of zeros": (vector(bytes(1536)), "direction"),
    "half a number": (vector(b"\x00\x3c\x00"), "no vector"),
    "a short vector": (vector(b"\x00\x3c" * 8), "one length"),
    "a vector of nothing known": (vector(b"\xff\x7f" * 768), "direction"),
    "no card": (without_card, "card of agent ana is missing"),
    "a card of another agent": (card({"agent_id": "bob"}), "another agent"),
    "a card that is none": (card([1]), "cannot be read"),
    "a changed definition": (skill(definition="{}"), "definition of a skill is none"),
    "another hash": (skill(hash="0" * 64), "not what its hash says"),
    "a skill called otherwise": (skill(name="trusted"), "called otherwise"),
    "code of the developer": (skill(origin="function"), "called otherwise"),
    "a skill without source": (skill(source=""), "called otherwise"),
    "a stranger": (stranger, "no run of the file has written"),
    "an event of the tenant": (tenant_event, "nothing that runs are made of"),
    "a pinned skill": (pinned, "does not belong"),
}


@pytest.mark.parametrize(("change", "says"), CASES.values(), ids=CASES.keys())
def test_a_forged_agent_is_refused_and_says_why(
    tmp_path: Path, honest: bytes, change: Change, says: str
) -> None:
    path = tmp_path / "forged.artelier"
    path.write_bytes(honest)
    forgery = Forgery(path)
    change(forgery)
    forgery.write(path)

    async def scenario() -> None:
        with opened(tmp_path, "here") as here:
            target = here.for_tenant("acme")
            await target.state()
            root = await here.store.root()
            with pytest.raises((InvalidExport, Conflict), match=says):
                await target.import_agent(path)
            assert await here.store.root() == root
            assert await here.store.query("SELECT count(*) FROM blobs") == [(0,)]
            assert (await target.agents())["items"] == []

    asyncio.run(scenario())


def test_what_is_only_written_again_is_taken(tmp_path: Path, honest: bytes) -> None:
    """Else the refusals above would prove nothing."""
    path = tmp_path / "again.artelier"
    path.write_bytes(honest)
    Forgery(path).write(path)

    async def scenario() -> None:
        with opened(tmp_path, "here") as here:
            assert (await here.for_tenant("acme").import_agent(path)).agent_id == "ana"
            assert here.verify().findings == []

    asyncio.run(scenario())


def test_a_changed_byte_and_a_bomb_are_refused(tmp_path: Path, honest: bytes) -> None:
    path = tmp_path / "changed.artelier"

    async def scenario() -> None:
        with opened(tmp_path, "here") as here:
            target = here.for_tenant("acme")
            await target.state()
            root = await here.store.root()
            for index in range(0, len(honest), max(1, len(honest) // 100)):
                changed = bytearray(honest)
                changed[index] ^= 1 << index % 8
                path.write_bytes(changed)
                with pytest.raises(InvalidExport):
                    await target.import_agent(path)
            path.write_bytes(honest)
            with pytest.raises(InvalidExport, match="too large when it is unpacked"):
                await target.import_agent(path, size_max_bytes=5_000)
            with pytest.raises(InvalidExport, match="holds agent ana"):
                await Kernel.replay_file(path, _nothing)
            assert await here.store.root() == root

    asyncio.run(scenario())


async def _nothing(run: Any) -> None:
    raise AssertionError("nothing of this file may be driven")


def test_an_agent_that_begins_while_it_is_imported_is_not_joined(tmp_path: Path, honest: bytes) -> None:
    """The room is looked at again in the transaction of the import."""
    path = tmp_path / "ana.artelier"
    path.write_bytes(honest)

    async def scenario() -> None:
        with opened(tmp_path, "here") as here:
            target = here.for_tenant("acme")
            await target.state()

            async def begin() -> None:
                async with target.run("mine", agent="ana") as run:
                    run.finish(1)

            results = await asyncio.gather(target.import_agent(path), begin(), return_exceptions=True)

            runs = {one["id"] for one in (await target.runs())["items"]}
            assert runs in ({"mine"}, {"mine", "one", "one.fork-1", "two"})
            assert isinstance(results[0], Conflict) == (runs == {"mine"})
            assert here.verify().findings == []

    asyncio.run(scenario())
