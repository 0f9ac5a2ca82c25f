"""`artelier up`: Mission Control in the browser."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncGenerator, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from artelier.cli.call import Call, file_of
from artelier.cli.command import DRAIN_S, DrainS, alone, command
from artelier.errors import ArtelierError, Flow, InvalidRequest, NotFound
from artelier.pii.marking import marked

if TYPE_CHECKING:
    from fastapi import FastAPI

    from artelier.app import Kernel
    from artelier.server.settings import ServerSettings

app = alone()

AllowedHosts = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-host", metavar="NAME", help="Name under which a proxy reaches it; repeatable."
    ),
]
PublicAddress = Annotated[
    str,
    typer.Option("--public-url", metavar="URL", help="Address that people type, before a proxy."),
]
TrustedProxies = Annotated[
    list[str] | None,
    typer.Option(
        "--trusted-proxy",
        metavar="ADDRESS",
        help="Proxy whose X-Forwarded-For counts: an address or a network; repeatable.",
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
    call: Call,
    host: Annotated[
        str, typer.Option("--host", metavar="NAME", help="Address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65535, help="0: a free one.")
    ] = 8321,
    open_: Annotated[bool, typer.Option("--open", help="Open the browser.")] = False,
    auth: Annotated[
        str | None,
        typer.Option("--auth", metavar="FILE", help="Users, as TOML; else only who has the link."),
    ] = None,
    allow_host: AllowedHosts = None,
    public_url: PublicAddress = "",
    trusted_proxy: TrustedProxies = None,
    workspace: Annotated[
        str | None,
        typer.Option("--workspace", metavar="DIR", help="Folder that agents of missions may use."),
    ] = None,
    goal: Annotated[
        str | None,
        typer.Option(
            "--goal", metavar="TEXT", help="Plan and launch this, unless it was launched before."
        ),
    ] = None,
    pace: Pace = 0.0,
    no_worker: Annotated[
        bool, typer.Option("--no-worker", help="Drive no runs: other processes do.")
    ] = False,
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
    settings = _settings(
        call, host=host, port=port, hosts=tuple(allow_host or ()), public_url=public_url,
        trusted_proxies=tuple(trusted_proxy or ()), auth=auth, workspace=workspace,
        has_worker=not no_worker, drain_s=drain_s,
    )  # fmt: skip
    await _open(call, settings, opens=open_, goal=goal, pace=pace)


def _settings(
    call: Call, *, auth: str | None, workspace: str | None, **address: Any
) -> ServerSettings:  # fmt: skip
    from artelier.server.settings import ServerSettings
    from artelier.server.users import Users

    return ServerSettings(
        tenant=call.tenant, users=Users.load(auth) if auth else None,
        secret_file=_secret_file(file_of(call.database)), workspace=_folder(workspace),
        model=call.settings.model, **address,
    )  # fmt: skip


async def _open(
    call: Call, settings: ServerSettings, *, opens: bool, goal: str | None, pace: float
) -> None:
    """Take the address first: a server that cannot listen opens no database."""
    from artelier.server.serving import bind

    bound = bind(settings.host, settings.port)
    try:
        # What people reach over a network, or share, is held to more than what is one person's own.
        async with call.kernel(create=True, is_enforced=settings.users is not None) as kernel:
            kernel.models.pace_offline(pace)
            await _serve(call, kernel, settings, bound, opens=opens, goal=goal)
    finally:
        bound.close()


async def _serve(
    call: Call, kernel: Kernel, settings: ServerSettings, bound: Any, *, opens: bool, goal: str | None,
) -> None:  # fmt: skip
    from artelier.server.app import create_app
    from artelier.server.serving import address_of, serve

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
    call.screen.note(f"database {call.database}; {worker}; Ctrl-C ends it.{waiting}", "bold")
    if settings.workspace:
        call.screen.note(f"workspace {settings.workspace}")
    if opens and _has_desktop():
        import webbrowser

        webbrowser.open(link)
    with _new_links(call, application, address):
        async with _at_work(call, kernel, settings, goal):
            await serve(application, bound)
    call.screen.note(f"head {await kernel.head()}", "dim")


@contextlib.asynccontextmanager
async def _at_work(
    call: Call, kernel: Kernel, settings: ServerSettings, goal: str | None
) -> AsyncGenerator[None]:
    """While it is open, the mission for a goal is at work here, if it is new; else the worker has it."""
    if goal is None:
        yield
        return
    from artelier.cli.do import name_of

    desk = kernel.for_tenant(settings.tenant)
    mission = name_of("goal" if call.settings.pii else goal)
    kernel.models.resolve(settings.model)  # before anything is recorded
    try:
        await desk.show(mission)
    except NotFound:
        call.screen.note(f"mission {mission}: {goal}")
    else:
        yield
        return
    work = asyncio.create_task(_told(call, desk.plan(
        goal, mission_id=mission, model=settings.model, workspace=settings.workspace,
        auto_launch=True, by=call.person,
    )))  # fmt: skip
    try:
        yield
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def _told(call: Call, work: Coroutine[Any, Any, Any]) -> None:
    """The server goes on without the mission; what is wrong with it is said."""
    try:
        await work
    except Flow:
        pass  # how it stands is in the log
    except ArtelierError as error:
        call.screen.note(f"the mission cannot go on: {marked(str(error))}", "bold")


def _has_desktop() -> bool:
    """Whether a browser could show itself to somebody."""
    shown = ("DISPLAY", "WAYLAND_DISPLAY")
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in shown)


def _link(application: FastAPI, address: str) -> str:
    """Where to go: with users to the login, else with a token that signs in once."""
    if application.state.gate.users is not None:
        return f"{address}/"
    return f"{address}/?token={application.state.gate.sessions.link()}"


def _new_links(call: Call, application: FastAPI, address: str) -> Any:
    """While it is open, Enter prints a new link, if a person sits there."""

    @contextlib.contextmanager
    def reading() -> Any:
        if not call.screen.asks:
            yield
            return
        loop, descriptor = asyncio.get_running_loop(), sys.stdin.fileno()

        def pressed() -> None:
            if os.read(descriptor, 4096):
                call.screen.text(_link(application, address))
            else:
                loop.remove_reader(descriptor)  # Ctrl-D

        loop.add_reader(descriptor, pressed)
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


def _folder(workspace: str | None) -> str:
    """Errors: `NotFound` if it is no folder."""
    if workspace is None:
        return ""
    root = os.path.realpath(workspace)
    if not os.path.isdir(root):
        raise NotFound("the workspace is no folder", got=workspace, hint="Name one that exists.")
    return root


def _print_line(call: Call, *, is_password: bool) -> None:
    """What goes into a file of users. Errors: `InvalidRequest` if the password was mistyped."""
    import secrets

    from artelier.server.users import password_hash, token_hash

    if not is_password:
        token = secrets.token_urlsafe(32)
        call.screen.note("the token; it is shown once")
        call.screen.text(token)
        call.screen.note("its line in the file of users")
        call.screen.text(f'tokens = ["{token_hash(token)}"]')
        return
    call.screen.text(f'password = "{password_hash(_asked(call))}"')


def _asked(call: Call) -> str:
    if not call.screen.asks:
        return sys.stdin.readline().rstrip("\r\n")
    import getpass

    password = getpass.getpass("password > ", stream=sys.stderr)
    if getpass.getpass("again > ", stream=sys.stderr) != password:
        raise InvalidRequest("the two passwords differ")
    return password
