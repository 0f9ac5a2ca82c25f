"""Two tenants of one process, and one of them trying everything of `attempts.py` on the other."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from mcp import Client, MCPError

from artelier.agents.loop_registry import kit_of, replay_run
from artelier.errors import ArtelierError, Flow
from artelier.kernel.policy import Workspaces
from artelier.log import blob_ref
from artelier.ports.model import ModelRequest
from artelier.server.mcp import Face
from artelier.testing import ScriptedModel
from artelier.world import World
from tests.missions.mission_stage import LINE, MISSION
from tests.missions.task_stage import approve, title_of, write
from tests.operations.profiles import tavern
from tests.server.house import asking, until
from tests.server.routes.goals import a_task, an_agent, stands
from tests.server.routes.served import Served, at, good, serving
from tests.tenants.attempts import DESK, NAME, OTHER, STEP, Attempt

CANARY = "CANARY-4711"

ATTACKER = "other"


def said(request: ModelRequest) -> Any:
    """A model whose every word is a secret of the tenant that asks."""
    secret = CANARY if CANARY in str(request) else "plain"
    title = title_of(request)
    if title == "Plan":
        return json.loads(json.dumps(LINE).replace("The goal", f"The {secret} goal"))
    if title == "Verdict":
        return approve(request)
    if title == "Decision":
        return {**write(f"Out {secret}"), "reason": secret}
    return f"# {secret}\n\nOslo sold more than every other city."


def nobody(name: str) -> str:
    """A name of the same form that nobody has."""
    return "".join(chr((ord(one) - 97 + 1) % 26 + 97) if "a" <= one <= "z" else one for one in name)


@dataclass
class Stage:
    served: Served
    desks: Path
    tools: dict[str, Any]
    client: Client
    blobs: list[str]

    @property
    def theirs(self) -> Path:
        return self.desks / OTHER

    async def runs(self) -> list[Any]:
        return (await self.desk.runs(limit=1000))["items"]

    @property
    def desk(self) -> Any:
        return self.served.kernel.for_tenant(ATTACKER)


@asynccontextmanager
async def two_tenants(folder: Path, **more: Any) -> AsyncIterator[Stage]:
    """A server where `default` has something of everything, and `other` a little of its own."""
    desks = (folder / "desks").resolve()
    _fill(desks)
    workspaces = more.pop("workspaces", None) or Workspaces(base=desks)
    model = ScriptedModel(said)
    async with serving(folder, model=model, workspaces=workspaces, has_worker=False, **more) as served:
        await _settle_in(served)
        await _settle_beside(served)
        face = Face(
            served.kernel,
            tenant=ATTACKER,
            principal="operator",
            model="m",
            workspace=str(desks / ATTACKER),
            approvals=True,
        )
        tools = kit_of(served.kernel.services, ATTACKER, str(desks / ATTACKER))
        rows = await served.kernel.store.query(
            "SELECT name FROM blobs WHERE tenant = ? ORDER BY size DESC LIMIT 10", (OTHER,)
        )
        try:
            async with Client(face.server, read_timeout_seconds=30) as client:
                yield Stage(served, desks, tools, client, [blob_ref(bytes(one)) for (one,) in rows])
        finally:
            await face.aclose()


def _fill(desks: Path) -> None:
    """Fill the folders: with secrets, and with what somebody with a shell could have left beside them."""
    theirs, own = desks / OTHER, desks / ATTACKER
    for place in (theirs / "deep", theirs / ".hidden", own / "own"):
        place.mkdir(parents=True)
    for place in (theirs, theirs / "deep", theirs / ".hidden"):
        (place / "note.txt").write_text(CANARY)
    with (theirs / "salary.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["who", CANARY], ["ada", CANARY]])
    with sqlite3.connect(theirs / "pay.db") as db:
        db.execute(f'CREATE TABLE "{CANARY}"(who TEXT)')
    db.close()
    (own / "own.csv").write_text("a,b\n1,2\n")
    (own / "note-of-mine.txt").write_text("mine")
    for name in ("note", nobody("note")):
        (own / f"to-{name}.txt").symlink_to(theirs / f"{name}.txt")
        (own / f"relative-{name}.txt").symlink_to(f"../{OTHER}/{name}.txt")
    for name in (OTHER, nobody(OTHER)):
        (own / f"to-{name}").symlink_to(desks / name)
    (own / "chain.txt").symlink_to("to-note.txt")
    (own / "data.csv").symlink_to(theirs / "salary.csv")
    (own / "data.db").symlink_to(theirs / "pay.db")
    (own / "root").symlink_to("/proc/self/root")
    (own / "cwd").symlink_to("/proc/self/cwd")
    (own / "hard.txt").hardlink_to(theirs / "note.txt")
    (own / "hard.csv").hardlink_to(theirs / "salary.csv")
    (own / "hard.db").hardlink_to(theirs / "pay.db")


async def _settle_in(served: Served) -> None:
    """What the tenant `default` has."""
    ada = served.ada
    asked = {"goal": CANARY, "model": "m", "mission_id": MISSION}
    good(await ada.post("/god-mode/plan?wait=60", json=asked))
    good(await ada.post(at("god-mode", MISSION, "launch"), json={}))
    await served.kernel.for_tenant(OTHER).drive_mission(MISSION, on_wait="return")
    await stands(ada, at("missions", MISSION), "completed", "failed")
    await an_agent(ada, role=CANARY)
    await a_task(ada, assigned_agent_id=None, goal=CANARY)
    await asking(served.kernel, "asks")
    secret = {"id": "secret", "kind": "document", "content": CANARY}
    good(await ada.post("/artifacts", json=secret), 201)
    file = {"file": ("salary.csv", f"who,pay\nada,{CANARY}\n".encode())}
    good(await ada.post("/uploads", files=file), 201)
    good(await ada.post(at("memory", "m1/by-letter", "entries"), json={"text": CANARY}), 201)
    good(await ada.post("/profiles", json={"profile": tavern().data()}), 201)
    nightly = {"id": "nightly", "goal": CANARY, "every": "1d", "model": "m"}
    good(await ada.post("/schedules", json=nightly), 201)
    chat = {"id": "confession", "profile": "rp-basic", "model": "m"}
    good(await ada.post("/sessions", json=chat), 201)
    turn = good(await ada.post("/sessions/confession/turns", json={"text": CANARY}), 202)["run_id"]

    async def has_ended() -> bool:
        found = await ada.get(at("runs", turn))
        return found.status_code == 200 and found.json()["status"] in ("completed", "failed")

    await until(has_ended)
    world = {"world": {"start_balance": 50}, "agents": [{"id": CANARY, "policy": "nobody"}]}
    good(await ada.post("/worlds", json={"id": "realm", "world": world}), 201)


async def _settle_beside(served: Served) -> None:
    """What the tenant `other` has, so that it can name things of the other in its own."""
    eve = served.eve
    await an_agent(eve, "mine")
    await a_task(eve, "mine", assigned_agent_id="mine")
    good(await eve.post("/membranes", json={"id": "pool", "name": "Pool"}), 201)
    good(await eve.post("/sessions", json={"id": "talk", "profile": "rp-basic", "model": "m"}), 201)
    note = {"id": "own-note", "kind": "document", "content": "plain"}
    good(await eve.post("/artifacts", json=note), 201)
    code = {"code": "def run(ref):\n    return read(ref)\n"}
    reader = {"id": "reader", "kind": "tool", "content": code}
    good(await eve.post("/artifacts", json=reader), 201)
    world = {"world": {"start_balance": 50}, "agents": [{"id": "idle", "policy": "nobody"}]}
    good(await eve.post("/worlds", json={"id": "mine", "world": world}), 201)
    good(await eve.post("/schedules", json={"id": "mine", "goal": "g", "every": "1d", "model": "m"}), 201)
    await asking(served.kernel, "own", tenant=ATTACKER)


# Playing


@dataclass(frozen=True)
class Answer:
    """What came back: whether it is an error, its kind for the comparison, and every byte of it."""

    is_error: bool
    kind: str
    text: str


@dataclass(frozen=True)
class Breach:
    attempt: Attempt
    why: str

    def __str__(self) -> str:
        return f"{self.attempt.title}: {self.why}"


async def play(stage: Stage, attempts: Iterable[Attempt]) -> list[Breach]:
    """Every attempt that told something of the other tenant, or changed it."""
    found: list[Breach] = []
    before = await _state(stage)
    async with stage.desk.run(f"attack-{len(await stage.runs())}", tools=stage.tools) as run:
        for attempt in attempts:
            answer = await _try(stage, run, attempt, attempt.name)
            why = _told(answer, attempt)
            if why is None and attempt.has_twin and attempt.name:
                twin = await _try(stage, run, attempt, nobody(attempt.name))
                if (answer.is_error, answer.kind) != (twin.is_error, twin.kind):
                    why = f"tells it from what nobody has: {answer.kind} / {twin.kind}"
            if (after := await _state(stage)) != before:
                why, before = why or "something of the other has changed", after
            if why is not None:
                found.append(Breach(attempt, why))
    return found


def _told(answer: Answer, attempt: Attempt) -> str | None:
    if CANARY in answer.text:
        return f"the secret is in the answer: {answer.text[:300]}"
    if attempt.must_refuse and not answer.is_error:
        return f"not refused: {answer.text[:300]}"
    return None


async def _state(stage: Stage) -> Any:
    """The folder and the log of the other tenant."""
    files = {
        str(one): (one.lstat().st_mtime_ns, hashlib.sha256(one.read_bytes()).hexdigest())
        for one in sorted(stage.theirs.rglob("*"))
        if one.is_file()
    }
    rows = await stage.served.kernel.store.query(
        "SELECT count(*), max(e.position) FROM events e JOIN streams s ON s.id = e.stream WHERE s.tenant = ?",
        (OTHER,),
    )
    return files, rows, sorted(str(one) for one in stage.theirs.rglob("*"))


async def _try(stage: Stage, run: Any, attempt: Attempt, name: str) -> Answer:
    arguments = _with(attempt, attempt.arguments, name, stage)
    if attempt.name.startswith("<blob "):
        name = stage.blobs[int(attempt.name[6:-1])]
    doors: dict[str, Callable[[], Awaitable[Answer]]] = {
        "http": lambda: _http(stage, attempt, name, arguments),
        "tool": lambda: _tool(run, attempt, name, arguments),
        "mcp": lambda: _mcp(stage, attempt, name, arguments),
        "program": lambda: _program(stage, attempt, name, arguments),
    }
    return await doors[attempt.door]()


def _with(attempt: Attempt, value: Any, name: str, stage: Stage) -> Any:
    """Arguments about a thing: by the placeholder, else by its own name in paths."""
    if isinstance(value, dict):
        return {
            _with(attempt, key, name, stage): _with(attempt, one, name, stage) for key, one in value.items()
        }
    if isinstance(value, list):
        return [_with(attempt, one, name, stage) for one in value]
    if not isinstance(value, str):
        return value
    text = value.replace(DESK, str(stage.theirs))
    if NAME in text:
        return text.replace(NAME, name)
    is_path = attempt.door == "tool" or "workspace" in str(attempt.arguments)
    if is_path and attempt.name and attempt.name != name:
        return text.replace(attempt.name, name)
    return text


def _answer(attempt: Attempt, name: str, *, is_error: bool, kind: Any, text: str) -> Answer:
    """The kind without the name itself, which every refusal may repeat."""
    told = kind if isinstance(kind, str) else json.dumps(kind, sort_keys=True, default=str)
    told = re.sub(r"-[0-9a-f]{4}\b", "-0000", told)  # the end of an id that was made
    id_ = name.partition("@")[0]
    for form in (name, quote(name, safe=""), json.dumps(name)[1:-1], id_, quote(id_, safe="")):
        if form and attempt.door == "tool":  # of which no other word has the name
            told = told.replace(form, NAME)
        elif form:
            told = re.sub(rf"(?<![A-Za-z0-9]){re.escape(form)}(?![A-Za-z0-9])", NAME, told)
    return Answer(is_error, told, text)


async def send(stage: Stage, attempt: Attempt, name: str) -> Answer:
    """One attempt over HTTP."""
    return await _http(stage, attempt, name, _with(attempt, attempt.arguments, name, stage))


async def _http(stage: Stage, attempt: Attempt, name: str, arguments: Any) -> Answer:
    method, _, path = attempt.call.partition(" ")
    address = path.replace(NAME, quote(name, safe=""))
    answer = await stage.served.eve.request(
        method,
        address,
        params=arguments.get("params"),
        json=arguments.get("json"),
        headers=arguments.get("headers"),
    )
    text = f"{answer.headers} {answer.text}"
    kind: Any = answer.status_code
    if answer.status_code >= 400:
        kind = (answer.status_code, answer.json().get("error"))
    return _answer(attempt, name, is_error=answer.status_code >= 400, kind=kind, text=text)


async def _tool(run: Any, attempt: Attempt, name: str, arguments: Any) -> Answer:
    result = await run.step_tool(attempt.call, arguments)
    text = json.dumps(result.value, default=str)
    kind = text if result.is_error else "done"
    return _answer(attempt, name, is_error=result.is_error, kind=kind, text=text)


async def _mcp(stage: Stage, attempt: Attempt, name: str, arguments: Any) -> Answer:
    client = stage.client
    try:
        if attempt.call == "read_resource":
            found: Any = await client.read_resource(arguments["uri"])
        elif attempt.call == "list_resources":
            found = await client.list_resources()
        else:
            found = await client.call_tool(attempt.call, arguments)
    except MCPError as error:
        text = f"{error} {getattr(error, 'data', '')} {error.args}"
        return _answer(attempt, name, is_error=True, kind=text, text=text)
    text = found.model_dump_json()
    is_error = bool(getattr(found, "is_error", False))
    return _answer(attempt, name, is_error=is_error, kind=text if is_error else "done", text=text)


async def _program(stage: Stage, attempt: Attempt, name: str, arguments: Any) -> Answer:
    try:
        found = await _call(stage, attempt.call, name, arguments)
    except ArtelierError as error:
        wire = error.to_wire()
        return _answer(attempt, name, is_error=True, kind=wire, text=f"{wire} {error.facts}")
    except Flow as flow:
        return _answer(attempt, name, is_error=True, kind=str(flow), text=str(flow))
    return _answer(attempt, name, is_error=False, kind="done", text=_text(found))


def _text(found: Any) -> str:
    with suppress(TypeError, ValueError):
        return msgspec.json.encode(found).decode()
    return repr(found)


async def _call(stage: Stage, call: str, name: str, arguments: Any) -> Any:
    desk, scratch = stage.desk, stage.desks.parent / "scratch"
    thing, _, method = call.partition(".")
    if thing == "artifacts":
        return await _artifact(desk.as_principal("operator").artifacts, method, name)
    if thing == "world":
        async with World.open(desk, name) as world:
            return await getattr(world, method)()
    if call == "memory":
        memory = desk.memory.for_agent(desk.id, name)
        return [await memory.search("CANARY"), str(memory)]
    if call in ("fork_with", "adopt"):
        if call == "adopt":
            return await desk.adopt(name)
        return await desk.fork("own", with_={"own-note@1": name})
    more: dict[str, tuple[Any, ...]] = {
        "export": (scratch,),
        "export_chat": (scratch,),
        "inject": ("x",),
        "signal": ("go",),
        "render": (STEP,),
        "manifest": (STEP,),
        "diff": ("own",),
        "replay": (lambda run: replay_run(run, {}),),
    }
    if call == "plan":
        return await desk.plan(**arguments)
    if call == "limit":
        return await desk.limit(name, unit="usd", cap="1")
    return await getattr(desk, call)(name, *more.get(call, ()))


async def _artifact(artifacts: Any, method: str, name: str) -> Any:
    more: dict[str, tuple[Any, ...]] = {
        "edit": ("a", "b"),
        "transfer": ("eve",),
        "history": (),
        "lineage": (),
    }
    if method == "search":
        return await artifacts.search(CANARY)
    if method == "list":
        return await artifacts.list(limit=100)
    return await getattr(artifacts, method)(name, *more.get(method, ()))
