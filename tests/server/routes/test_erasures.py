"""Erasing over HTTP: for admins, in two steps, and only what the first step has shown."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from artelier.app import TenantKernel
from artelier.errors import Erased
from artelier.server.routes.erasures import CONFIRM_S
from artelier.server.security.users import Users, token_hash
from artelier.testing import ManualClock
from tests.server.house import House, assert_fault, house

WORD = "violet-harbour"
PEOPLE = (
    ("ada", "admin", "default"),
    ("ann", "admin", "default"),
    ("bob", "operator", "default"),
    ("vic", "viewer", "default"),
    ("eve", "admin", "other"),
)


class Office:
    """A server with people, each with a client."""

    def __init__(self, home: House, clock: ManualClock) -> None:
        self.home = home
        self.clock = clock
        self.people = {name: home.stranger(authorization=f"Bearer {name}-token") for name, _, _ in PEOPLE}

    async def post(self, who: str, path: str, **body: Any) -> httpx.Response:
        return await self.people[who].post(f"/api/v1/erasures{path}", json=body)

    async def preview(self, who: str = "ada", **body: Any) -> dict[str, Any]:
        answer = await self.post(who, "/preview", **body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def serve(self, run_id: str, subject: str | None, tenant: str = "default") -> None:
        desk: TenantKernel = self.home.kernel.for_tenant(tenant)
        async with desk.run(run_id, subject=subject) as run:
            run.finish({"said": f"{WORD} {run_id}"})


@asynccontextmanager
async def office(folder: Path) -> AsyncIterator[Office]:
    rows = [
        {"name": name, "role": role, "tenants": [tenant], "tokens": [token_hash(f"{name}-token")]}
        for name, role, tenant in PEOPLE
    ]
    clock = ManualClock()
    environ = {"ARTELIER_VAULT_KEY": "a vault key for tests"}
    users = Users.parse({"users": rows})
    async with house(folder, users=users, environ=environ, clock=clock) as home:
        made = Office(home, clock)
        try:
            await made.serve("of-ana", "ana")
            await made.serve("of-ben", "ben")
            await made.serve("of-other", "ana", tenant="other")
            yield made
        finally:
            for client in made.people.values():
                await client.aclose()


def erasures(folder: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "state.db")) as db:
        return db.execute(
            "SELECT s.tenant, e.actor, e.data FROM events e JOIN streams s ON s.id = e.stream"
            " WHERE e.kind = 'content.erased'"
        ).fetchall()


def test_a_preview_changes_nothing_and_its_token_erases_what_it_showed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with office(tmp_path) as desk:
            shown = await desk.preview(subject="ana")
            assert (shown["keys"], shown["runs"], shown["whole"]) == (1, ["of-ana"], False)
            assert shown["contents"] > 0 and not shown["cleaned"]
            assert erasures(tmp_path) == []

            done = await desk.post("ada", "", subject="ana", token=shown["token"])

            assert done.status_code == 200, done.text
            told = done.json()
            assert (told["contents"], told["keys"], told["cleaned"]) == (shown["contents"], 1, True)
            assert told["not_reached"] == ["exports", "backups", "reports"]
            with pytest.raises(Erased):
                await desk.home.desk.run("of-ana").__aenter__()
            assert (await desk.home.desk.show("of-ben"))["status"] == "completed"
            [(tenant, actor, data)] = erasures(tmp_path)
            assert (tenant, actor) == ("default", "user:ada") and '"upto_key":' in data
            assert desk.home.kernel.verify().ok

    asyncio.run(scenario())


def test_the_same_request_again_erases_nothing_more(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with office(tmp_path) as desk:
            for body in ({"subject": "ana"}, {}):
                token = (await desk.preview(**body))["token"]
                first = await desk.post("ada", "", token=token, **body)
                # Somebody works on meanwhile, which a second call must not reach.
                await desk.serve(f"after-{len(body)}", "ana")
                again = await desk.post("ada", "", token=token, **body)

                assert (first.status_code, again.status_code) == (200, 200), again.text
                assert (first.json()["again"], again.json()["again"]) == (False, True)
                assert again.json()["contents"] == 0
            assert len(erasures(tmp_path)) == 2
            assert WORD in str(await desk.home.desk.show("after-0"))

    asyncio.run(scenario())


def test_only_admins_of_the_tenant_may_look_and_erase(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with office(tmp_path) as desk:
            token = (await desk.preview(subject="ana"))["token"]
            for who in ("bob", "vic"):
                assert_fault(await desk.post(who, "/preview", subject="ana"), 403, "access_denied")
                refused = await desk.post(who, "", subject="ana", token=token)
                assert_fault(refused, 403, "access_denied")
            async with desk.home.stranger() as stranger:
                nobody = await stranger.post("/api/v1/erasures", json={"token": token})
                assert nobody.status_code == 401
            assert_fault(await desk.post("eve", "/preview", subject="ben"), 404, "not_found")
            assert erasures(tmp_path) == []

    asyncio.run(scenario())


def test_a_token_is_good_for_nobody_and_nothing_else(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with office(tmp_path) as desk:
            token = (await desk.preview(subject="ana"))["token"]
            until, upto, digest, mac = token.split(".")
            later = f"{int(until) * 2}.{upto}.{digest}.{mac}"
            wider = f"{until}.{int(upto) + 9}.{digest}.{mac}"
            attempts: list[tuple[str, dict[str, Any]]] = [
                ("ann", {"subject": "ana", "token": token}),
                ("eve", {"subject": "ana", "token": token}),
                ("ada", {"subject": "ben", "token": token}),
                ("ada", {"token": token}),
                ("ada", {"subject": "ana", "token": later}),
                ("ada", {"subject": "ana", "token": wider}),
                ("ada", {"subject": "ana", "token": "..."}),
                ("ada", {"subject": "ana", "token": "é"}),
            ]
            for who, body in attempts:
                assert_fault(await desk.post(who, "", **body), 409, "conflict")
            assert (await desk.post("ada", "", subject="ana")).status_code == 422
            assert erasures(tmp_path) == []

    asyncio.run(scenario())


def test_a_token_ends_and_one_of_another_state_erases_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with office(tmp_path) as desk:
            before = (await desk.preview(subject="ana"))["token"]
            await desk.serve("of-ana-too", "ana")
            changed = await desk.post("ada", "", subject="ana", token=before)
            assert_fault(changed, 409, "conflict")
            assert "something else would be erased" in changed.json()["error"]["message"]

            late = (await desk.preview(subject="ana"))["token"]
            desk.clock.advance(CONFIRM_S)
            ended = await desk.post("ada", "", subject="ana", token=late)
            assert_fault(ended, 409, "conflict")
            assert erasures(tmp_path) == []

    asyncio.run(scenario())
