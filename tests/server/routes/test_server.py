"""`/server` and changes of `/tenants/me`: what a server tells about itself, and what only admins change."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from artelier.app import Kernel
from artelier.kernel.policy import Workspaces
from artelier.log import Event
from artelier.server.app import create_app
from artelier.server.security.users import Users, token_hash
from artelier.server.settings import ServerSettings
from tests.server.house import house
from tests.server.routes.served import Served, good, play, refused, serving

KEY = "sk-a-key-that-nobody-sees"

PEOPLE = Users.parse(
    {
        "users": [
            {"name": name, "role": role, "tenants": tenants, "tokens": [token_hash(f"{name}-token")]}
            for name, role, tenants in (
                ("root", "admin", ["default"]),
                ("ada", "operator", ["default", "other"]),
                ("vic", "viewer", ["default"]),
                ("eve", "admin", ["other"]),
            )
        ]
    }
)


async def _with_admins(
    folder: Path, scenario: Any, *, workspace: Path | None = None, **settings: Any
) -> None:
    """A server with two admins, each of a tenant of their own."""
    workspaces = None if workspace is None else Workspaces(roots={"default": workspace})
    kernel = Kernel.open(folder / "state.db", environ={"OPENAI_API_KEY": KEY}, workspaces=workspaces)
    app = create_app(kernel, settings=ServerSettings(users=PEOPLE, has_worker=False, **settings))
    served = Served(kernel, app)
    try:
        async with app.router.lifespan_context(app):
            await scenario(served)
            await served.close()
    finally:
        await kernel.aclose()


async def _changes(served: Served, tenant: str) -> list[Event]:
    return [
        event
        async for event in served.kernel.events()
        if event.stream.tenant == tenant and event.kind == "tenant.updated"
    ]


# The server


def test_a_viewer_reads_how_the_server_was_started_and_no_path_and_no_key(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        answer = await served.vic.get("/server")
        told = good(answer)
        assert told["database"] == "state.db" and told["workspace"] == "sales"
        assert (told["model"], told["has_worker"]) == ("openai:gpt-4o-mini", False)
        assert told["upload_bytes_max"] == 5_000_000
        assert told["models"]["openai"] is True and told["models"]["anthropic"] is False
        assert "ollama" not in told["models"], "it needs no key"
        assert told["users"] is None
        assert KEY not in answer.text and str(tmp_path) not in answer.text

    (tmp_path / "sales").mkdir()
    play(
        _with_admins(
            tmp_path,
            scenario,
            workspace=tmp_path / "sales",
            model="openai:gpt-4o-mini",
            upload_max_bytes=5_000_000,
        )
    )


def test_an_admin_sees_the_users_of_their_own_tenant_alone(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        told = good(await served.client("root").get("/server"))["users"]
        assert [(one["name"], one["role"], one["tenants"]) for one in told] == [
            ("ada", "operator", ["default"]),
            ("root", "admin", ["default"]),
            ("vic", "viewer", ["default"]),
        ]
        others = good(await served.eve.get("/server"))["users"]
        assert [one["name"] for one in others] == ["ada", "eve"]
        assert good(await served.ada.get("/server"))["users"] is None
        assert "token" not in json.dumps(told) and "sha256" not in json.dumps(told)

    play(_with_admins(tmp_path, scenario))


def test_who_is_alone_with_the_machine_has_no_users(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home:
            told = (await home.client.get("/api/v1/server")).json()
            assert (told["users"], told["workspace"], told["model"]) == (None, "", "offline")
            assert (await home.stranger().get("/api/v1/server")).status_code == 401

    asyncio.run(scenario())


# The tenant


def test_an_admin_changes_budget_and_grants_and_the_event_says_who(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        root = served.client("root")
        before = good(await root.get("/tenants/me"))
        told = good(await root.patch("/tenants/me", json={"budget_usd": "2.50"}))
        assert (told["budget_microusd"], told["available_microusd"]) == (2_500_000, 2_500_000)
        assert told["grants"] == before["grants"], "what is not named stays"
        told = good(await root.patch("/tenants/me", json={"grants": ["tools:b", "tools:a"]}))
        assert told["grants"] == ["tools:a", "tools:b"] and told["budget_microusd"] == 2_500_000
        told = good(await root.patch("/tenants/me", json={"budget_usd": None}))
        assert told["budget_microusd"] is None
        assert good(await root.patch("/tenants/me", json={"grants": []}))["grants"] == []
        assert [one.actor for one in await _changes(served, "default")] == ["user:root"] * 4

    play(_with_admins(tmp_path, scenario))


def test_a_budget_below_what_is_there_to_take_back_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        from artelier.ports.model import Price

        price = Price(request="0.01")  # pyright: ignore[reportArgumentType] - text is taken for what it says
        async with serving(tmp_path, price=price) as served:
            await served.kernel.tenants.open("default")
            await served.kernel.tenants.update("default", budget_usd="1.00")
            async with served.kernel.run("r") as run:
                await run.step_model(model="m", messages=[{"role": "user", "content": "hi"}])

        async def lower(again: Served) -> None:
            answer = await again.client("root").patch("/tenants/me", json={"budget_usd": "0.005"})
            refused(answer, 409, "insufficient_funds")
            me = good(await again.client("root").get("/tenants/me"))
            assert (me["budget_microusd"], me["spent_microusd"]) == (1_000_000, 10_000)

        await _with_admins(tmp_path, lower)

    play(scenario())


def test_a_run_at_work_sees_the_grants_at_its_next_step(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        from artelier.errors import NotGranted

        hi = [{"role": "user", "content": "hi"}]
        async with served.kernel.run("r") as run:
            await run.step_model(model="offline", messages=hi)
            good(await served.client("root").patch("/tenants/me", json={"grants": ["models:none"]}))
            with pytest.raises(NotGranted):
                await run.step_model(model="offline", messages=hi)

    play(_with_admins(tmp_path, scenario))


def test_viewers_and_operators_change_nothing_of_a_tenant(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for client in (served.vic, served.ada):
            for body in ({"budget_usd": "9"}, {"budget_usd": None}, {"grants": ["*"]}, {}):
                refused(await client.patch("/tenants/me", json=body), 403, "access_denied")
        assert await _changes(served, "default") == []

    play(_with_admins(tmp_path, scenario))


def test_an_admin_of_one_tenant_changes_no_other(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        good(await served.client("root").patch("/tenants/me", json={"budget_usd": "2"}))
        good(await served.eve.patch("/tenants/me", json={"budget_usd": "7", "grants": ["tools:x"]}))
        answer = await served.eve.patch(
            "/tenants/me", json={"budget_usd": "9"}, headers={"X-Artelier-Tenant": "default"}
        )
        refused(answer, 404, "not_found")
        mine = good(await served.client("root").get("/tenants/me"))
        assert mine["budget_microusd"] == 2_000_000 and "tools:x" not in mine["grants"]
        assert good(await served.eve.get("/tenants/me"))["budget_microusd"] == 7_000_000
        assert len(await _changes(served, "default")) == len(await _changes(served, "other")) == 1

    play(_with_admins(tmp_path, scenario))


HOSTILE: tuple[Any, ...] = (
    {},
    None,
    [],
    5,
    {"budget_usd": 5},
    {"budget_usd": ""},
    {"budget_usd": "-1"},
    {"budget_usd": "1e400"},
    {"budget_usd": "NaN"},
    {"budget_usd": "Infinity"},
    {"budget_usd": "0.0000001"},
    {"budget_usd": "9" * 10},
    {"budget_usd": "1\n"},
    {"budget_usd": {"a": 1}},
    {"grants": None},
    {"grants": "tools:*"},
    {"grants": [""]},
    {"grants": ["x" * 201]},
    {"grants": ["x"] * 201},
    {"grants": [None]},
    {"grants": [["*"]]},
    {"grants": ["a\0b"]},
    {"grants": ["\ud800"]},
    {"allow_unknown_price": True},
    {"tenant": "other", "budget_usd": "1"},
    {"by": "user:vic", "budget_usd": "1"},
    {"unlimited": True},
)


def test_a_body_that_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        root = served.client("root")
        for body in HOSTILE:
            answer = await root.patch(
                "/tenants/me", content=json.dumps(body), headers={"content-type": "application/json"}
            )
            error = refused(answer, 422)
            assert error["message"], body
        assert await _changes(served, "default") == []

    play(_with_admins(tmp_path, scenario))
