"""`artelier up`: Mission Control in the browser."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncGenerator, Coroutine, Generator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from artelier.cli.brought_tools import BroughtTools, McpServers, SkillFolders, ToolFiles
from artelier.cli.call import CliCall, name_of
from artelier.cli.command import DRAIN_S, DrainS, HealthAddress, alone, command
from artelier.errors import ArtelierError, Conflict, Flow, InvalidConfig, InvalidRequest
from artelier.ids import is_tenant
from artelier.log.places import file_beside
from artelier.pii.scrubber_registry import redact_output

if TYPE_CHECKING:
    from fastapi import FastAPI

    from artelier.app import Kernel, TenantKernel
    from artelier.cli.settings.settings import Settings
    from artelier.kernel.policy import Workspaces
    from artelier.missions.reports import MissionDetail
    from artelier.server.security.users import Users
    from artelier.server.settings import ServerSettings

app = alone()

MISSIONS_MAX = 1_000
"""Goals whose first words are the same."""

AllowedHosts = Annotated[
    list[str] | None,
    typer.Option("--allow-host", metavar="NAME", help="Name under which a proxy reaches it; repeatable."),
]
PublicAddress = Annotated[
    str, typer.Option("--public-url", metavar="URL", help="Address that people type, before a proxy.")
]
TrustedProxies = Annotated[
    list[str] | None,
    typer.Option(
        "--trusted-proxy",
        metavar="ADDRESS",
        help="Proxy whose X-Forwarded-For counts: an address or a network; repeatable.",
    ),
]
Folders = Annotated[
    list[str] | None,
    typer.Option(
        "--workspace",
        metavar="[TENANT=]DIR",
        help="Folder that agents may use; with several tenants one for each, repeated.",
    ),
]
FolderOfFolders = Annotated[
    str | None,
    typer.Option(
        "--workspace-root", metavar="DIR", help="Holds a workspace for each tenant, named after it."
    ),
]
Pace = Annotated[
    float,
    typer.Option(
        "--pace",
        metavar="SECONDS",
        min=0,
        max=60,
        help="How long the offline model takes for a reply, so that one can follow.",
    ),
]


@command(app, example="artelier up --workspace ./sales --open")
async def up(
    call: CliCall,
    host: Annotated[str, typer.Option("--host", metavar="NAME", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="N", min=0, max=65535, help="0: a free one.")] = 8321,
    open_: Annotated[bool, typer.Option("--open", help="Open the browser.")] = False,
    auth: Annotated[
        str | None, typer.Option("--auth", metavar="FILE", help="Users, as TOML; else only who has the link.")
    ] = None,
    allow_host: AllowedHosts = None,
    public_url: PublicAddress = "",
    trusted_proxy: TrustedProxies = None,
    workspace: Folders = None,
    workspace_root: FolderOfFolders = None,
    goal: Annotated[
        str | None,
        typer.Option("--goal", metavar="TEXT", help="Plan and launch this, unless it was launched before."),
    ] = None,
    tools: ToolFiles = None,
    skills: SkillFolders = None,
    mcp: McpServers = None,
    pace: Pace = 0.0,
    no_worker: Annotated[
        bool, typer.Option("--no-worker", help="Drive no runs: other processes do.")
    ] = False,
    health: HealthAddress = None,
    drain_s: DrainS = DRAIN_S,
    hash_password: Annotated[
        bool, typer.Option("--hash-password", help="Ask a password, print its line for --auth.")
    ] = False,
    new_token: Annotated[
        bool, typer.Option("--new-token", help="Print a program's token and its line for --auth.")
    ] = False,
) -> int | None:
    """Serve Mission Control to a browser on this machine.

    It prints a link that signs in once; Enter prints another. Runs that nobody drives are driven here.
    Ctrl-C ends it: runs stay resumable, and the root of the newest commit is printed. SIGTERM lets tools that
    are at work end first. With --auth a file
    of users says who may sign in: [[users]] with name, role (viewer, operator or admin), tenants, and
    password or tokens; personal data is then replaced, which needs ARTELIER_VAULT_KEY, and tools of high
    risk ask a person. Without it only this machine can reach the server.
    """
    if hash_password or new_token:
        return _print_line(call, is_password=hash_password)
    from artelier.cli.work.sigterm import end_on_sigterm

    end_on_sigterm()  # until it serves; from then on the server hears it
    settings = _settings(
        call,
        host=host,
        port=port,
        hosts=tuple(allow_host or ()),
        public_url=public_url,
        trusted_proxies=tuple(trusted_proxy or ()),
        auth=auth,
        has_worker=not no_worker,
        drain_s=drain_s,
    )
    workspaces = workspaces_of(call.settings, settings.users, given=workspace or [], base=workspace_root)
    for file in (file_beside(call.database), auth):
        if file is not None and file != ":memory:":
            workspaces.check_private(file)
    brought = BroughtTools.of(tools, skills, mcp=mcp, workspaces=workspaces.folders)
    await _open(call, settings, workspaces, brought, opens=open_, goal=goal, pace=pace, health=health)


def _settings(call: CliCall, *, auth: str | None, **address: Any) -> ServerSettings:
    from artelier.server.security.users import Users, tokens_file
    from artelier.server.settings import ServerSettings

    users = Users.load(auth) if auth else None
    secret = _secret_file(file_beside(call.database))
    return ServerSettings(
        tenant=_tenant(call, users),
        users=users,
        secret_file=secret,
        tokens_file=None if secret is None else tokens_file(Path(file_beside(call.database))),
        sweeps_folder=None if secret is None else secret.with_suffix(".sweeps"),
        model=call.settings.model,
        webhooks=call.settings.incoming_webhooks(environ=os.environ),
        **address,
    )


def _tenant(call: CliCall, users: Users | None) -> str:
    """Return the tenant that is served first: one that somebody may sign in to, if there are users.

    Errors: `InvalidConfig` if another one was named.
    """
    if users is None or call.tenant in users.tenants:
        return call.tenant
    if call.named_tenant is not None:
        raise InvalidConfig(
            "no user may open this tenant",
            expected=", ".join(users.tenants)[:200],
            got=call.tenant,
            hint="Name it under `tenants` of a user in the file of --auth.",
        )
    return users.tenants[0]


async def _open(
    call: CliCall,
    settings: ServerSettings,
    workspaces: Workspaces,
    brought: BroughtTools,
    *,
    opens: bool,
    goal: str | None,
    pace: float,
    health: str | None,
) -> None:
    """Take the address first: a server that cannot listen opens no database."""
    from artelier.server.http_server import bind

    bound = bind(settings.host, settings.port)
    try:
        # What people reach over a network, or share, is held to more than what is one person's own.
        is_shared = settings.users is not None
        async with call.kernel(
            create=True, is_enforced=is_shared, workspaces=workspaces, brought=brought
        ) as kernel:
            await check_one_tenant(kernel, settings, workspaces)
            if pace:
                kernel.models.pace_offline(pace)
            async with _health(call, kernel, settings, health):
                await _serve(call, kernel, settings, bound, opens=opens, goal=goal)
    finally:
        bound.close()


@contextlib.asynccontextmanager
async def _health(
    call: CliCall, kernel: Kernel, settings: ServerSettings, address: str | None
) -> AsyncGenerator[None]:
    """While it is open, supervisors are answered on a port of their own, if one is named."""
    if address is None:
        yield
        return
    from artelier.agents.worker import SLOTS
    from artelier.server.health import serving

    async with serving(kernel, address, slots=SLOTS if settings.has_worker else 0) as url:
        call.screen.note(f"health on {url}")
        yield


async def _serve(
    call: CliCall, kernel: Kernel, settings: ServerSettings, bound: Any, *, opens: bool, goal: str | None
) -> None:
    from artelier.server.app import create_app
    from artelier.server.http_server import address_of, serve

    await kernel.for_tenant(settings.tenant).state()
    application = create_app(kernel, settings=settings)
    address = address_of(bound, settings)
    link = _link(application, address)
    if call.as_json:
        call.screen.json({"url": link, "port": bound.getsockname()[1]}, indent=-1)
    else:
        call.screen.text(link)
    open_runs = await kernel.for_tenant(settings.tenant).runs(status="pending", limit=1)
    waiting = " Runs are waiting to be driven." if open_runs["items"] else ""
    worker = "drives runs" if settings.has_worker else "drives no runs"
    tenants = settings.users.tenants if settings.users is not None else [settings.tenant]
    served = f"tenant{'s' if len(tenants) > 1 else ''} {', '.join(tenants)[:200]}"
    about = f"database {call.database_label}; {served}; {worker}"
    call.screen.note(f"{about}; Ctrl-C ends it.{waiting}", "bold")
    if folder := kernel.services.workspaces.root(settings.tenant):
        call.screen.note(f"workspace {folder}")
    if opens and _has_desktop():
        import webbrowser

        webbrowser.open(link)
    with _new_links(call, application, address):
        async with _at_work(call, kernel, settings, goal):
            await serve(application, bound)
    call.screen.note(f"head {await kernel.head()}", "dim")


@contextlib.asynccontextmanager
async def _at_work(
    call: CliCall, kernel: Kernel, settings: ServerSettings, goal: str | None
) -> AsyncGenerator[None]:
    """While it is open, the mission for a goal is at work here, if it is new; else the worker has it."""
    if goal is None:
        yield
        return

    desk = kernel.for_tenant(settings.tenant)
    mission, is_new = await free_mission(desk, name_of("goal" if call.settings.pii else goal), goal)
    kernel.models.resolve(settings.model)  # before anything is recorded
    if not is_new:
        call.screen.note(_standing(await desk.mission(mission)))
        yield
        return
    call.screen.note(f"mission {mission} of tenant {desk.id}: {goal}")
    work = asyncio.create_task(
        _report_failure(
            call,
            desk.plan(
                goal,
                mission_id=mission,
                model=settings.model,
                auto_launch=True,
                by=call.person,
                workspace=kernel.services.workspaces.root(settings.tenant),
            ),
        )
    )
    try:
        yield
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


def _standing(mission: MissionDetail) -> str:
    """Return how the mission of a goal stands that was given again."""
    from artelier.kernel.run.context import is_final

    if not is_final(mission["run_status"]):
        return f"mission {mission['id']} has this goal already; it goes on where it stopped"
    why = f" ({mission['reason']})" if mission["reason"] else ""
    return (
        f"mission {mission['id']} had this goal and is {mission['status']}{why}; nothing begins anew."
        " `artelier tasks retry` tries a failed task again; a goal in other words is another mission."
    )


async def free_mission(desk: TenantKernel, name: str, goal: str) -> tuple[str, bool]:
    """Return the mission of a goal, and whether it is new. Another goal of the same name gets a number.

    Errors: `Conflict` if all numbers are taken.
    """
    from artelier.missions.plan.mission_runner import recorded_job

    for number in range(1, MISSIONS_MAX + 1):
        mission = name if number == 1 else f"{name}-{number}"
        try:
            job = await recorded_job(desk, mission)
        except Conflict:  # the run of something else
            continue
        if job is None:
            return mission, True
        if desk.services.is_stored(desk.id, "goal", goal, as_=job.goal):
            return mission, False
    raise Conflict(f"{MISSIONS_MAX} missions are called {name}", hint="Word the goal otherwise.")


async def _report_failure(call: CliCall, work: Coroutine[Any, Any, Any]) -> None:
    """The server goes on without the mission; what is wrong with it is said."""
    try:
        await work
    except Flow:
        pass  # how it stands is in the log
    except ArtelierError as error:
        call.screen.note(f"the mission cannot go on: {redact_output(str(error))}", "bold")


def _has_desktop() -> bool:
    """Return True if a browser could show itself to somebody."""
    shown = ("DISPLAY", "WAYLAND_DISPLAY")
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in shown)


def _link(application: FastAPI, address: str) -> str:
    """Return where to go: with users to the login, else with a token that signs in once."""
    if application.state.gate.users is not None:
        return f"{address}/"
    return f"{address}/?token={application.state.gate.sessions.link()}"


def _new_links(call: CliCall, application: FastAPI, address: str) -> AbstractContextManager[None]:
    """While it is open, Enter prints a new link, if a person sits there."""

    @contextlib.contextmanager
    def reading() -> Generator[None]:
        if not call.screen.asks:
            yield
            return
        loop, descriptor = asyncio.get_running_loop(), sys.stdin.fileno()

        def print_link() -> None:
            if os.read(descriptor, 4096):
                call.screen.text(_link(application, address))
            else:
                loop.remove_reader(descriptor)  # Ctrl-D

        loop.add_reader(descriptor, print_link)
        try:
            yield
        finally:
            loop.remove_reader(descriptor)

    return reading()


def _secret_file(database: str) -> Path | None:
    """The key of sessions stands beside the database, so that a restart keeps them."""
    if database == ":memory:":
        return None
    path = Path(database)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.with_name(path.name + ".sessions")


def workspaces_of(
    settings: Settings, users: Users | None, *, given: list[str], base: str | None
) -> Workspaces:
    """Return the folders of all tenants, as options say, else as settings do.

    Errors: `InvalidConfig` for a folder that is not there, and for one plain folder of several tenants.
    """
    from artelier.kernel.policy import ANY_FOLDER, Workspaces

    plain: list[str] = []
    roots: dict[str, str] = {}
    for text in given:
        tenant, equals, folder = text.partition("=")
        if equals and is_tenant(tenant):
            roots[tenant] = folder
        else:
            plain.append(text)
    tenants = users.tenants if users is not None else []
    if plain and (base is not None or roots or len(plain) > 1):
        raise InvalidConfig(
            "one folder for everybody and folders of tenants exclude each other",
            expected="--workspace DIR, or --workspace TENANT=DIR for each",
            got=", ".join(given)[:200],
        )
    if plain and len(tenants) > 1:
        raise shared_workspace(tenants)
    if base is not None or roots:
        return Workspaces(base=base, roots=roots)
    if plain:
        return Workspaces(roots={tenants[0]: plain[0]}) if tenants else Workspaces(default=plain[0])
    stated = settings.workspaces()
    # People of several tenants share no folder that nobody gave to one of them.
    return Workspaces(is_confined=True) if stated is ANY_FOLDER and len(tenants) > 1 else stated


async def check_one_tenant(kernel: Kernel, settings: ServerSettings, workspaces: Workspaces) -> None:
    """Errors: `InvalidConfig` if several tenants of this store would work in one plain folder."""
    if not workspaces.default:
        return
    stored = [tenant["id"] for tenant in await kernel.tenants.list()]
    if len(tenants := sorted({settings.tenant, *stored})) > 1:
        raise shared_workspace(tenants)


def shared_workspace(tenants: list[str]) -> InvalidConfig:
    return InvalidConfig(
        "several tenants would read and write one folder",
        expected=" ".join(f"--workspace {tenant}=DIR" for tenant in tenants[:5]),
        got=f"one --workspace for {len(tenants)} tenants",
        hint="Or --workspace-root DIR, which holds a folder for each, named after the tenant.",
    )


def _print_line(call: CliCall, *, is_password: bool) -> None:
    """Print the line for a file of users. Errors: `InvalidRequest` if the password was mistyped."""
    import secrets

    from artelier.server.security.users import password_hash, token_hash

    if not is_password:
        token = secrets.token_urlsafe(32)
        call.screen.note("the token; it is shown once")
        call.screen.text(token)
        call.screen.note("its line in the file of users")
        call.screen.text(f'tokens = ["{token_hash(token)}"]')
        return
    call.screen.text(f'password = "{password_hash(_ask_password(call))}"')


def _ask_password(call: CliCall) -> str:
    if not call.screen.asks:
        return sys.stdin.readline().rstrip("\r\n")
    import getpass

    password = getpass.getpass("password > ", stream=sys.stderr)
    if getpass.getpass("again > ", stream=sys.stderr) != password:
        raise InvalidRequest("the two passwords differ")
    return password
