"""The server that is attacked, in a process of its own: two tenants, the neighbour's agent, a heartbeat.

A line of JSON comes in, one goes out: `{"agent": {...}}` has agents of the attacker run, with a reply and a
schema of its choice (`replies.py`); `{"figures": true}` tells how long steps and beats took since then.
A tool that holds the interpreter says so before, unasked: `{"freezes": true}`.
Run as `python -m ... DATABASE PROVIDER_URL PLANT`.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import resource
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from artelier import AutonomousAgent, Kernel, ModelRequest, Policy, Tenant, tool
from artelier.errors import ArtelierError
from artelier.server.app import create_app
from artelier.server.http_server import Server, bind
from artelier.server.security.users import User, Users, password_hash, token_hash
from artelier.server.settings import ServerSettings
from artelier.testing import ScriptedModel
from artelier.threads import content_owner
from artelier_lab.availability.neighbour import figures
from artelier_lab.availability.replies import REPLIES, result_of

ATTACKER, NEIGHBOUR = "attacker", "neighbour"
TOKENS = {ATTACKER: "a" * 43, NEIGHBOUR: "b" * 43}
COLLEAGUES = {f"colleague-{number}": f"{number}" * 43 for number in range(8)}
"""More users of the attacker's tenant, with their tokens."""
PASSWORD = "correct horse battery"
VAULT_KEY = "a vault key for a trial"
FILES_MAX = 1024
"""File descriptors of the server: what many systems give a process."""
STEP_EACH_S = 0.1
BEAT_S = 0.02
PLANTS = ("", "unbounded-pattern")


class Beats:
    """A probe of the duration of the neighbour's agent steps, and of the delay of the loop's beats."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._steps_s: list[float] = []
        self._late_s: list[float] = []
        self._numbers = itertools.count(1)

    async def beat(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + BEAT_S
            await asyncio.sleep(BEAT_S)
            self._late_s.append(max(0.0, loop.time() - due_s))

    async def step(self) -> None:
        """Take a model step after the other, in runs of moderate length."""
        loop = asyncio.get_running_loop()
        while True:
            name = f"neighbour-{next(self._numbers)}"
            async with self._kernel.run(name, tenant=NEIGHBOUR) as run:
                for _ in range(500):
                    began_s = loop.time()
                    await run.step_model(model="neighbour", messages=[_SAID])
                    self._steps_s.append(loop.time() - began_s)
                    await asyncio.sleep(STEP_EACH_S)

    def told(self) -> dict[str, float]:
        steps, late = self._steps_s, self._late_s
        self._steps_s, self._late_s = [], []
        return {
            "step_ms_p99": figures(steps)[0],
            "step_ms_max": figures(steps)[1],
            "heartbeat_ms_p99": figures(late)[0],
            "heartbeat_ms_max": figures(late)[1],
        }


_SAID = {"role": "user", "content": "Go on."}


class Host:
    """The attacker's own program: it starts agents whose models and tools answer what it likes."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    async def run(self, run_id: str, reply: str, count: int = 1) -> str:
        """Return how the runs ended, or `working` after a while."""
        schema = REPLIES[reply].schema

        async def one(number: int) -> str:
            content_owner.set(f"tenant {ATTACKER}")  # as the worker of a server does
            agent = AutonomousAgent(kernel=self._kernel, max_iterations=3)
            try:
                ended = await agent.run(
                    run_id=f"{run_id}-{number}",
                    tenant=ATTACKER,
                    model=f"reply:{reply}",
                    prompt="Do it.",
                    output_schema=schema,
                    on_wait="return",
                )
            except ArtelierError as error:
                return error.code
            return f"{ended.status} {ended.reason}".strip()

        return (await asyncio.gather(*(one(number) for number in range(count))))[0]


@tool(side_effect=False)
def given(name: str) -> Any:
    """Return a result of the attacker's choice."""
    return result_of(name)


@tool(side_effect=False)
async def freeze() -> str:
    """Hold the interpreter, as no wall around input can prevent a program of its own from doing."""
    _tell({"freezes": True})
    re.fullmatch("(a+)+b", "a" * 64)
    return "over"


class Planted:
    """The application with a known fault: a pattern of an outsider runs on the loop, without a bound."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            asked = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("q", [""])
            re.fullmatch("(a+)+", asked[0])
        await self._app(scope, receive, send)


def _models() -> dict[str, Any]:
    models: dict[str, Any] = {"neighbour": ScriptedModel(lambda request: "done")}

    def answer(name: str) -> Any:
        def reply(request: ModelRequest) -> Any:
            is_first = not any(message.role == "tool" for message in request.messages)
            return REPLIES[name].first() if is_first else REPLIES[name].then()

        return reply

    return models | {
        f"reply:{name}": ScriptedModel(answer(name), delay_s=one.delay_s) for name, one in REPLIES.items()
    }


async def serve(path: Path, provider_url: str, plant: str) -> None:
    """Serve until standard input ends. The first line that is told has the port."""
    files = min(FILES_MAX, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    kernel = Kernel.open(
        path,
        models=_models(),
        tools=[freeze, given],
        policy=Policy(pii=True),
        environ={"ARTELIER_VAULT_KEY": VAULT_KEY, "OPENAI_API_KEY": "none", "OPENAI_BASE_URL": provider_url},
    )
    for tenant in TOKENS:
        await kernel.tenants.open(Tenant(tenant, grants={"tools:*", "artifacts:*", "media:send"}))
    hashed = password_hash(PASSWORD)
    people = [(tenant, tenant, token) for tenant, token in TOKENS.items()]
    people += [(name, ATTACKER, token) for name, token in COLLEAGUES.items()]
    users = Users(
        User(name=name, role="admin", tenants=(tenant,), tokens=(token_hash(token),), password=hashed)
        for name, tenant, token in people
    )
    app = create_app(kernel, settings=ServerSettings(users=users, secret_file=path.with_suffix(".key")))
    bound = bind("127.0.0.1", 0)
    if plant:
        app.add_middleware(Planted)
    server = Server(app)
    beats, host = Beats(kernel), Host(kernel)
    serving = asyncio.create_task(server.serve(sockets=[bound]))
    beating = [asyncio.create_task(work) for work in (beats.beat(), beats.step())]
    _tell({"port": bound.getsockname()[1]})
    try:
        while line := await asyncio.to_thread(sys.stdin.readline):
            asked = json.loads(line)
            ended = await host.run(**asked["agent"]) if "agent" in asked else ""
            _tell({"ended": ended} | (beats.told() if "figures" in asked else {}))
    finally:
        for task in beating:
            task.cancel()
        await asyncio.gather(*beating, return_exceptions=True)
        server.should_exit = True
        await serving
        bound.close()
        await kernel.aclose()


def _tell(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), *sys.argv[2:]))
