"""`artelier mcp`: artifacts and runs for programs that speak MCP."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from artelier.cli.call import CliCall
from artelier.cli.command import alone, command
from artelier.errors import InvalidRequest, NotFound
from artelier.log.places import file_beside

if TYPE_CHECKING:
    from artelier.app import Kernel

app = alone()


@command(app, example="artelier mcp --workspace ./projects")
async def mcp(
    call: CliCall,
    principal: Annotated[
        str | None, typer.Option("--principal", metavar="NAME", help="For whom it acts: else user:<login>.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="Else ARTELIER_MODEL, settings, offline.")
    ] = None,
    workspace: Annotated[
        str | None, typer.Option("--workspace", metavar="DIR", help="Folder below which runs may work.")
    ] = None,
    budget_usd: Annotated[
        str | None, typer.Option("--budget-usd", metavar="AMOUNT", help="Most that any run may spend.")
    ] = None,
    approvals: Annotated[
        bool, typer.Option("--approvals/--no-approvals", help="Clients may answer what runs ask.")
    ] = False,
    transport: Annotated[str, typer.Option("--transport", metavar="NAME", help="stdio or http.")] = "stdio",
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65535, help="Of http; 0: a free one.")
    ] = 0,
) -> None:
    """Serve artifacts and runs over MCP.

    Artifacts are resources, as far as the principal may read them; runs are tools: start, watch, answer,
    stop. They answer what a run asks only with --approvals. Over stdio, stdout carries the protocol alone.
    Over http it listens on 127.0.0.1 and wants the bearer token that it prints on stderr, or one of
    `artelier token new`, which outlives a restart. Runs at hand stay resumable when it ends. Needs
    artelier[mcp].
    """
    import asyncio

    from artelier.cli.work.sigterm import end_on_sigterm
    from artelier.tools.mcp.server import require_mcp

    call.as_json = False  # stdout is the protocol's, also for errors
    require_mcp()
    if transport not in ("stdio", "http"):
        raise InvalidRequest("the transport", expected="stdio or http", got=repr(transport)[:80])
    if workspace is not None and not os.path.isdir(workspace):
        raise NotFound("the workspace is not there", got=workspace)
    usd, name = call.dollars(budget_usd), model or call.settings.model
    async with call.kernel(create=True) as kernel:
        kernel.models.resolve(name)
        if workspace is not None:
            place = os.path.abspath(workspace)
            workspace = kernel.services.workspaces.check(call.tenant, place)
        told_to_end = end_on_sigterm()
        try:
            await _serve(
                call,
                kernel,
                principal or call.person,
                model=name,
                usd=usd,
                workspace=workspace,
                approvals=approvals,
                port=port if transport == "http" else None,
            )
        except asyncio.CancelledError:
            if not told_to_end.is_set():  # Ctrl-C
                raise


async def _serve(
    call: CliCall,
    kernel: Kernel,
    principal: str,
    *,
    model: str,
    usd: str | None,
    workspace: str | None,
    approvals: bool,
    port: int | None,
) -> None:
    import secrets

    from artelier.server.mcp import Face, serve_http, serve_stdio
    from artelier.server.security.users import ProgramTokens, tokens_file

    face = Face(
        kernel,
        tenant=call.tenant,
        principal=principal,
        model=model,
        workspace=workspace,
        limits=call.settings.limits(usd=usd),
        approvals=approvals,
    )
    if port is None:
        await serve_stdio(face)
        return
    token = secrets.token_urlsafe(32)

    def ready(url: str) -> None:
        call.screen.note(f"serving {url}; Ctrl-C ends it")
        call.screen.note(f"Authorization: Bearer {token}")

    database = file_beside(call.database)
    known = None if database == ":memory:" else ProgramTokens(tokens_file(Path(database)))
    await serve_http(face, port=port, token=token, ready=ready, tokens=known)
