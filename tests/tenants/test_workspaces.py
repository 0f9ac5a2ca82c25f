"""A workspace belongs to a tenant: who has which folder, and what becomes of runs that name another one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, ModelRequest, Policy
from artelier.agents import Worker, resume_run, workspace_agent
from artelier.cli.settings.file import load_settings
from artelier.cli.work.up import free_mission, workspaces_of
from artelier.errors import AccessDenied, Conflict, InvalidConfig, NotFound
from artelier.kernel.policy import Workspaces
from artelier.loops.cycle import WORKSPACE_DENIED
from artelier.missions.plan.mission_runner import conduct, recorded_job
from artelier.ports.model import ModelReply, ToolCall
from artelier.server.app import create_app
from artelier.server.security.users import Users, token_hash
from artelier.server.settings import ServerSettings
from artelier.testing import ScriptedModel
from artelier.tools import workspace_tools
from tests.cli.conftest import Shell, shell
from tests.missions.mission_stage import LINE, Team

__all__ = ["shell"]

CANARY = "CANARY-WORKSPACE"


def folders(tmp_path: Path, *names: str) -> list[Path]:
    made = [tmp_path / name for name in names]
    for one in made:
        one.mkdir(parents=True)
        (one / "note.txt").write_text(f"{CANARY} of {one.name}")
    return made


def users(**tenants: list[str]) -> Users:
    rows = [
        {"name": name, "role": "operator", "tenants": own, "tokens": [token_hash(name)]}
        for name, own in tenants.items()
    ]
    return Users.parse({"users": rows})


# Which folder


def test_each_tenant_has_a_folder_below_the_root_that_is_made_on_first_use(tmp_path: Path) -> None:
    found = Workspaces(base=tmp_path)

    assert found.root("acme") == str(tmp_path.resolve() / "acme")
    assert (tmp_path / "acme").stat().st_mode & 0o777 == 0o700
    assert found.check("acme", ".") == found.root("acme")
    assert not (tmp_path / "beta").exists(), "nobody has asked for it"


def test_the_root_of_an_empty_volume_is_made_and_no_other(tmp_path: Path) -> None:
    assert Workspaces(base=tmp_path / "desks").root("acme") == str(tmp_path.resolve() / "desks/acme")
    assert (tmp_path / "desks").stat().st_mode & 0o777 == 0o700
    (tmp_path / "file").write_text("")
    for wrong in ("file", "file/desks", "nowhere/desks"):
        with pytest.raises(InvalidConfig, match="the folder of all workspaces is no folder"):
            Workspaces(base=tmp_path / wrong)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    "asked", ["../beta", "/etc", "..", "../acme2", "link", "link/deeper", "../nobody", "a/../../beta"]
)
def test_what_is_outside_is_refused_alike_whether_it_exists_or_not(tmp_path: Path, asked: str) -> None:
    folders(tmp_path, "acme", "beta", "acme2")
    (tmp_path / "acme/link").symlink_to(tmp_path / "beta")
    found = Workspaces(base=tmp_path)

    with pytest.raises(AccessDenied) as refused:
        found.check("acme", asked)

    told = refused.value.to_wire()
    assert told == _refusal(found, "../never-there")
    assert str(tmp_path) not in str(told)


def _refusal(found: Workspaces, asked: str) -> dict[str, Any]:
    with pytest.raises(AccessDenied) as refused:
        found.check("acme", asked)
    return refused.value.to_wire()


def test_a_tenants_place_that_is_a_link_is_no_workspace(tmp_path: Path) -> None:
    folders(tmp_path, "acme")
    (tmp_path / "beta").symlink_to(tmp_path / "acme")

    with pytest.raises(AccessDenied, match="is a link"):
        Workspaces(base=tmp_path).root("beta")


def test_a_tenant_without_a_folder_of_its_own_has_none(tmp_path: Path) -> None:
    (own,) = folders(tmp_path, "own")
    found = Workspaces(roots={"acme": own})

    assert (found.root("acme"), found.root("beta")) == (str(own.resolve()), "")
    with pytest.raises(AccessDenied, match="has no folder"):
        found.check("beta", str(own))
    with pytest.raises(NotFound):
        found.check("acme", "gone")


def test_folders_that_hold_each_other_are_refused(tmp_path: Path) -> None:
    own, inner = folders(tmp_path, "own", "own/inner")

    wrong: dict[str, Any]
    for wrong in (
        {"roots": {"acme": own, "beta": inner}},
        {"roots": {"acme": own, "beta": own}},
        {"roots": {"acme": tmp_path}, "base": own},
        {"roots": {"acme": inner}, "base": own},
        {"roots": {"acme": own}, "default": inner},
    ):
        with pytest.raises(InvalidConfig):
            Workspaces(**wrong)
    assert Workspaces(roots={"inner": inner}, base=own).root("inner") == str(inner.resolve())


def test_the_servers_own_files_are_in_no_workspace(tmp_path: Path) -> None:
    own, hidden = folders(tmp_path, "own", "own/.artelier")
    found = Workspaces(roots={"acme": own})

    with pytest.raises(InvalidConfig, match="lies in the workspace"):
        found.check_private(own / "state.db")
    found.check_private(hidden / "state.db")
    found.check_private(tmp_path / "state.db")


def test_a_file_with_a_second_name_is_not_opened_where_tenants_are_beside_each_other(tmp_path: Path) -> None:
    acme, beta = folders(tmp_path, "acme", "beta")
    (acme / "hard.txt").hardlink_to(beta / "note.txt")

    def read(**options: Any) -> Any:
        (tool,) = [one for one in workspace_tools(acme, **options) if one.name == "read_file"]
        return tool(path="hard.txt")

    with pytest.raises(Exception, match="another name"):
        read(is_confined=True)
    assert CANARY in read()["text"]


# Who starts the server


def test_several_tenants_and_one_workspace_are_refused_with_what_to_do(tmp_path: Path) -> None:
    own, all_ = folders(tmp_path, "own", "all")
    both, one = users(ada=["acme", "beta"]), users(ada=["acme"])
    settings = load_settings(None, environ={})

    with pytest.raises(InvalidConfig) as refused:
        workspaces_of(settings, both, given=[str(own)], base=None)

    assert refused.value.expected == "--workspace acme=DIR --workspace beta=DIR"
    assert "--workspace-root" in str(refused.value.hint)
    found = workspaces_of(settings, one, given=[str(own)], base=None)
    assert (found.root("acme"), found.is_confined) == (str(own.resolve()), True)
    assert workspaces_of(settings, both, given=[], base=None).is_confined, "nobody shares by chance"
    for given in ([str(own), f"acme={own}"], [str(own), str(own)]):
        with pytest.raises(InvalidConfig):
            workspaces_of(settings, both, given=given, base=None)
    mapped = workspaces_of(settings, both, given=[f"acme={own}"], base=str(all_))
    assert mapped.root("beta") == str(all_.resolve() / "beta")


def test_mapped_and_rooted_workspaces_come_from_settings_too(shell: Shell) -> None:
    folders(shell.folder, "all", "acme")
    shell.write("artelier.toml", '[workspaces]\nroot = "all"\n[workspaces.tenants]\nacme = "acme"\n')

    found = load_settings(None, environ={}).workspaces()

    assert found.root("acme") == str(shell.folder.resolve() / "acme")
    assert found.root("beta") == str(shell.folder.resolve() / "all/beta")
    by_variable = load_settings(None, environ={"ARTELIER_WORKSPACES": str(shell.folder / "all")})
    assert by_variable.workspaces().is_confined


def test_up_over_a_store_of_two_tenants_wants_a_workspace_for_each(shell: Shell) -> None:
    folders(shell.folder, "own")
    shell("tenants", "update", "acme", "--unlimited")
    shell("tenants", "update", "beta", "--unlimited")

    ran = shell("up", "--port", "0", "--json", "--workspace", "own", "--tenant", "acme")

    assert (ran.code, ran.error["code"]) == (2, "invalid_config")
    assert "--workspace acme=DIR --workspace beta=DIR" in ran.error["expected"]


def test_a_database_in_a_workspace_is_refused(shell: Shell) -> None:
    folders(shell.folder, "own")

    ran = shell("up", "--json", "--db", "own/state.db", "--workspace", "acme=own")

    assert ran.error["message"].startswith("a file of the server lies in the workspace")


def test_people_of_a_server_do_not_share_a_default(tmp_path: Path) -> None:
    (own,) = folders(tmp_path, "own")
    settings = ServerSettings(users=users(ada=["acme"]))

    with Kernel.open(":memory:", environ={}, workspaces=Workspaces(default=own)) as kernel:
        with pytest.raises(InvalidConfig, match="belongs to a tenant"):
            create_app(kernel, settings=settings)


# Runs that name another folder


def _reads(request: ModelRequest) -> ModelReply | str:
    if any(one.role == "tool" for one in request.messages):
        return "Done."
    call = ToolCall(id="1", name="read_file", arguments={"path": "note.txt"})
    return ModelReply(tool_calls=(call,))


def _agent(path: Path, **more: Any) -> Kernel:
    return Kernel.open(
        path, models={"m": ScriptedModel(_reads)}, policy=Policy(approve_risk="low"), environ={}, **more
    )


def test_a_run_of_another_folder_is_parked_unread_and_goes_on_where_the_folder_is_its_tenants(
    tmp_path: Path,
) -> None:
    theirs, own = folders(tmp_path, "theirs", "own")
    path = tmp_path / "state.db"

    async def begin() -> None:
        async with _closing(_agent(path)) as kernel:
            agent = workspace_agent(kernel, str(theirs))
            found = await agent.run(
                run_id="r", model="m", prompt="Read.", workspace=str(theirs), on_wait="return"
            )
            assert found.status == "waiting_approval"
            await kernel.for_tenant().approve("r")

    async def drive(workspaces: Workspaces) -> dict[str, Any]:
        async with _closing(_agent(path, workspaces=workspaces)) as kernel:
            await Worker(kernel, kernel.services).once()
            desk = kernel.for_tenant()
            shown = await desk.show("r")
            with pytest.raises(Conflict) if shown["status"] == "completed" else nullcontext():
                await desk.resume("r")
            events = [event async for event in kernel.events()]
            return {**shown, "called": sum(event.kind == "tool.completed" for event in events)}

    asyncio.run(begin())
    parked = asyncio.run(drive(Workspaces(roots={"default": own})))
    again = asyncio.run(drive(Workspaces(roots={"other": theirs})))
    done = asyncio.run(drive(Workspaces(roots={"default": tmp_path})))

    for one in (parked, again):
        assert (one["status"], one["reason"], one["called"]) == ("paused", WORKSPACE_DENIED, 0)
    assert (done["status"], done["called"]) == ("completed", 1)


def test_missions_and_tasks_of_another_folder_are_parked(tmp_path: Path) -> None:
    theirs, own = folders(tmp_path, "theirs", "own")
    path = tmp_path / "state.db"

    async def begin() -> None:
        async with _closing(_opened(path)) as kernel:
            desk = kernel.for_tenant()
            await desk.plan("G.", mission_id="m1", model="m", workspace=str(theirs))
            await desk.create_agent("ana", name="Ana", model="m")
            await desk.tasks.create(
                goal="g",
                success_criteria="c",
                assigned_agent_id="ana",
                id="tasks/t",
                model="m",
                workspace=str(theirs),
            )

    async def drive() -> None:
        async with _closing(_opened(path, workspaces=Workspaces(roots={"default": own}))) as kernel:
            desk = kernel.for_tenant()
            found = await resume_run(kernel, None, "m1", on_wait="return")
            assert (found.status, found.reason) == ("paused", WORKSPACE_DENIED)
            with pytest.raises(AccessDenied):
                await desk.launch("m1")
            await Worker(kernel, kernel.services).once()
            with pytest.raises(NotFound):
                await desk.show("tasks/t")  # it never began
            with pytest.raises(AccessDenied):
                await desk.plan("H.", mission_id="m2", model="m", workspace=str(theirs))
            with pytest.raises(AccessDenied):
                await desk.schedules.add("n", goal="g", every="1d", model="m", workspace="../theirs")
            assert [one["id"] for one in (await desk.runs())["items"]] == ["m1"]

    asyncio.run(begin())
    asyncio.run(drive())


@asynccontextmanager
async def _closing(kernel: Kernel) -> AsyncIterator[Kernel]:
    try:
        yield kernel
    finally:
        await kernel.aclose()


def _opened(path: Path, **more: Any) -> Kernel:
    return Kernel.open(path, models={"m": Team(LINE).model}, environ={}, **more)


# Two goals of one name


def test_a_second_goal_of_the_same_name_is_a_mission_of_its_own(tmp_path: Path) -> None:
    async def work() -> None:
        async with _closing(_opened(tmp_path / "state.db")) as kernel:
            desk = kernel.for_tenant()
            first, second = "Count what was sold in May.", "Count what was sold in June."
            assert await free_mission(desk, "count-what-was-sold", first) == ("count-what-was-sold", True)
            await desk.plan(first, mission_id="count-what-was-sold", model="m")
            assert await free_mission(desk, "count-what-was-sold", first) == ("count-what-was-sold", False)
            assert await free_mission(desk, "count-what-was-sold", second) == ("count-what-was-sold-2", True)
            async with kernel.run("hand") as run:
                run.finish(1)
            assert await free_mission(desk, "hand", first) == ("hand-2", True)
            job = await recorded_job(desk, "count-what-was-sold")
            assert job is not None and job.goal == first
            await conduct(desk, "count-what-was-sold", on_wait="return", until_launch=True)

    asyncio.run(work())
