"""After an erasure by another process, no answer of a server that goes on working holds what was erased."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from artelier import AutonomousAgent, ContextBuilder, Kernel
from artelier.server.event_encoder import Encoder, WireEvent
from artelier.testing import tool_call
from artelier.world import World
from tests.erasure.test_reach import OTHERS, SUBJECT, WORDS
from tests.erasure.test_subjects import SEALED, assert_nowhere
from tests.kernel.stage import play
from tests.server.house import House, documented, house

REPLIES = (
    tool_call("core_memory_append", {"content": f"likes {WORDS[0]}"}),
    tool_call("remember", {"text": f"lives at {WORDS[1]}"}),
    f"{WORDS[2]} is the answer",
    f"you said {WORDS[3]}",
    "nothing of interest",
)


@SEALED
def test_a_server_answers_nothing_that_another_process_has_erased(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    async def scenario() -> None:
        async with house(tmp_path, *REPLIES, environ=environ) as made:
            await filled(made)
            ids = {
                "runs": ["r17", "plain", "s17/r000001"],
                "memory": ["helper"],
                "artifacts": ["reports/17", "notes/17", "uploads/letter.txt", "notes/0"],
                "sessions": ["s17"],
                "agents": ["helper"],
            }
            before = await answers(made, ids)
            for word in WORDS:
                assert any(word in text for text in before.values()), word

            with Kernel.open(tmp_path / "state.db", environ=environ) as other:
                assert (await other.for_tenant().erase(subject=SUBJECT)).cleaned

            after = await answers(made, ids)
            assert after.keys() == before.keys()
            for place, text in after.items():
                for word in WORDS:
                    assert word not in text, (place, word)
            assert any("[erased]" in text for text in after.values())
            for place in ("/api/v1/runs/plain", "/api/v1/artifacts/notes%2F0"):
                assert after[place] == before[place]
            assert OTHERS in after["/api/v1/artifacts/notes%2F0"]
            assert made.kernel.verify().ok
            await made.desk.export("plain", tmp_path / "later.artelier")
        assert_nowhere(tmp_path, WORDS)

    play(scenario(), within_s=180)


@SEALED
def test_a_server_goes_on_after_its_tenant_was_erased(tmp_path: Path, environ: dict[str, str]) -> None:
    async def scenario() -> None:
        (tmp_path / "work").mkdir()
        async with house(tmp_path, *REPLIES, lambda request: "anew", environ=environ) as made:
            await filled(made)
            world = await World.new(made.kernel, "w17")
            await world.as_principal("operator").artifacts.write("letter", kind="document", content=WORDS[4])
            await world.tick()
            with Kernel.open(tmp_path / "state.db", environ=environ) as other:
                await other.for_tenant().plan(
                    f"Find out about {WORDS[0]}",
                    model="offline",
                    auto_launch=True,
                    mission_id="m17",
                    workspace=str(tmp_path / "work"),
                )
            agents = [one["id"] for one in await made.desk.agents_of("m17")]
            tasks = [one["id"] for one in (await made.desk.tasks.list(mission="m17"))["items"]]
            ids = {
                "runs": ["r17", "m17", *tasks],
                "memory": ["helper"],
                "sessions": ["s17"],
                "artifacts": ["reports/17", "notes/0", *agents, *tasks],
                "agents": agents,
                "missions": ["m17"],
                "tasks": tasks,
                "steering": agents,
                "worlds": ["w17"],
                "membranes": ["m17/shared"],
            }
            assert any(WORDS[0] in text for text in (await answers(made, ids)).values())

            with Kernel.open(tmp_path / "state.db", environ=environ) as other:
                assert (await other.for_tenant().erase()).cleaned

            for place, text in (await answers(made, ids)).items():
                assert not [word for word in WORDS if word in text], place
            await sent(made, "/sessions", id="anew", model="m")
            turn = await (await made.desk.chat("anew")).generate("hello")
            assert turn.text == "anew"
            await sent(made, "/artifacts", id="notes/0", kind="document", content="anew", expected_version=1)
            assert made.kernel.verify().ok

    play(scenario(), within_s=300)


async def filled(made: House) -> None:
    """Everything about the subject that a server can be made to hold, and something about nobody."""
    builder = ContextBuilder(identity="You help.", memory_store=made.kernel.memory, recall_limit=3)
    agent = AutonomousAgent(kernel=made.kernel, context_builder=builder, agent_id="helper")
    await agent.run(run_id="r17", model="m", prompt="who is it?", subject=SUBJECT, artifact="reports/17")
    for id, content, subject in (("notes/17", WORDS[4], SUBJECT), ("notes/0", OTHERS, "")):
        await sent(
            made,
            "/artifacts",
            id=id,
            kind="document",
            content=content,
            subject=subject,
            metadata={"about": content},
        )
    upload = {"file": ("letter.txt", f"Dear {WORDS[4]}".encode(), "text/plain")}
    made_upload = await made.client.post("/api/v1/uploads", files=upload, data={"subject": SUBJECT})
    assert made_upload.status_code == 201, made_upload.text
    await sent(made, "/sessions", id="s17", model="m", subject=SUBJECT, greetings=[WORDS[4]])
    session = await made.desk.chat("s17")
    await session.generate(f"it is about {WORDS[3]}")
    await agent.run(run_id="plain", model="m", prompt=f"what of {OTHERS}?")


async def sent(made: House, path: str, **body: Any) -> None:
    answer = await made.client.post(f"/api/v1{path}", json=body)
    assert answer.status_code == 201, answer.text


async def answers(made: House, ids: dict[str, list[str]]) -> dict[str, str]:
    """What the server says at every address that can be asked without knowing more than an id."""
    found: dict[str, str] = {}
    for path, methods in documented().items():
        operation = methods.get("get")
        if operation is None or path.endswith("/stream") or path in ("/api/v1/agui", "/api/v1/me"):
            continue
        needed = [one for one in operation.get("parameters", ()) if one.get("required")]
        in_path = [one["name"] for one in needed if one["in"] == "path"]
        resource = path.split("/")[3]
        if len(in_path) > 1 or (in_path and resource not in ids):
            continue
        for id in ids[resource] if in_path else [""]:
            place = path.replace(f"{{{in_path[0]}}}", quote(id, safe="")) if in_path else path
            for query in queries(resource, {one["name"] for one in needed} - set(in_path)):
                answer = await made.client.get(place, params=query)
                assert answer.status_code < 500, (place, answer.text)
                if not path.endswith(("/export", "/server")):
                    name = "&".join(f"{key}={value}" for key, value in query.items())
                    found[f"{place}?{name}" if name else place] = answer.text
    return found


def queries(resource: str, needed: set[str]) -> list[dict[str, str]]:
    """Values for what an address needs."""
    if needed == {"q"}:
        return [{"q": word} for word in (*WORDS, OTHERS)]
    if needed == {"step"}:
        return [{"step": step} for step in ("c1/model", "c2/model", "c3/model", "main/model")]
    known = {"a": "1", "b": "1", "with": "plain", "run_id": "s17/r000001", "world": "none"}
    return [{name: known[name] for name in needed}] if needed <= known.keys() else []


def test_the_feed_of_events_forgets_what_it_had_encoded(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path, "done") as made:
            agent = AutonomousAgent(kernel=made.kernel, identity="You help.")
            await agent.run(run_id="r17", model="m", prompt=WORDS[0], subject=SUBJECT)
            encoder = Encoder(made.kernel.store, "default")

            def told(events: list[WireEvent]) -> bool:
                return any(WORDS[0].encode() in event.body for event in events)

            for _ in range(2):
                assert told([await encoder.encode(e) for e in await encoder.read(after=0, limit=1000)])
            with Kernel.open(tmp_path / "state.db", environ={}) as other:
                await other.for_tenant().erase(subject=SUBJECT)
            assert not told([await encoder.encode(e) for e in await encoder.read(after=0, limit=1000)])

    play(scenario(), within_s=60)
