""""""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from artelier.cli import display, exit_codes
from artelier.cli.brought_tools import BroughtTools, McpServers, SkillFolders, ToolFiles
from artelier.cli.call import CliCall, fresh_id
from artelier.cli.chat.chat_options import ChatOptions, open_chat
from artelier.cli.command import (
    Attachments,
    Fallbacks,
    ModelName,
    ModelParams,
    Subject,
    alone,
    command,
    read_attachments,
)
from artelier.ports.model_params import parse_params

if TYPE_CHECKING:
    from artelier.cli.chat.conversation import Talk

app = alone()


Characters = Annotated[
    list[str] | None,
    typer.Option("--char", metavar="NAME|FILE", help="Who answers: a name, or a card; several are a group."),
]
Speaks = Annotated[
    str | None,
    typer.Option(
        "--speaks", metavar="RULE", help="Who of a group is next: list, mention, talkativeness, model."
    ),
]
Persona = Annotated[
    str | None, typer.Option("--persona", metavar="FILE", help="Who you are: JSON with name, description.")
]
Books = Annotated[
    list[str] | None,
    typer.Option("--lorebook", metavar="FILE", help="World Info (.json), or a ref; repeatable; or none."),
]
Messages = Annotated[
    list[str] | None, typer.Option("--message", metavar="TEXT", help="Say it, then leave; repeatable.")
]


@command(app, example="artelier chat tavern --profile rp-basic --char mira.png")
async def chat(
    call: CliCall,
    name: Annotated[str | None, typer.Argument(metavar="CHAT", help="Its name: else a new one.")] = None,
    profile: Annotated[
        str | None, typer.Option("--profile", metavar="NAME", help="Operations around each reply, or none.")
    ] = None,
    model: ModelName = None,
    fallback: Fallbacks = None,
    param: ModelParams = None,
    branch: Annotated[str, typer.Option("--branch", metavar="NAME", help="Where to go on.")] = "main",
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="Session of the profile: its artifacts.")
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", metavar="NAME", help="What you are called in it.")
    ] = None,
    char: Characters = None,
    speaks: Speaks = None,
    persona: Persona = None,
    lorebook: Books = None,
    system: Annotated[str | None, typer.Option("--system", metavar="TEXT", help="The system prompt.")] = None,
    preset: Annotated[
        str | None, typer.Option("--preset", metavar="FILE", help="Samplers and prompts (.json).")
    ] = None,
    import_: Annotated[
        str | None, typer.Option("--import", metavar="FILE", help="Turns of another program (.jsonl).")
    ] = None,
    message: Messages = None,
    attach: Attachments = None,
    subject: Subject = "",
    tools: ToolFiles = None,
    skills: SkillFolders = None,
    mcp: McpServers = None,
    list_: Annotated[bool, typer.Option("--list", help="List the chats instead, the newest first.")] = False,
) -> int:
    """Talk with a model, with operations that keep a state around it.

    What you type is said; /help lists the commands. Input that is no terminal has one message per line.
    A chat stays: name it again to go on, also after a crash. With --json each turn is an object on one
    line.
    """
    if list_:
        return await list_chats(call)

    wish = ChatOptions(
        chat=name or fresh_id("chat"),
        model=model,
        fallbacks=fallback,
        params=parse_params(param or ()),
        profile=profile,
        branch=branch,
        session=session,
        user=user,
        chars=char or (),
        speaks=speaks,
        persona=persona,
        lorebooks=lorebook or (),
        system=system,
        preset=preset,
        file=import_,
        subject=subject,
    )
    brought = BroughtTools.of(tools, skills, mcp=mcp)
    shown = read_attachments(attach or ())
    return await _talk(call, wish, message or (), shown, brought=brought, is_named=name is not None)


async def _talk(
    call: CliCall,
    wish: ChatOptions,
    messages: Sequence[str],
    shown: list[bytes],
    *,
    brought: BroughtTools,
    is_named: bool,
) -> int:
    """Open the chat and go on in it until the person leaves, or all messages are said."""
    from artelier.cli.chat.conversation import Lines, Talk
    from artelier.cli.chat.repl import Repl

    lines = Lines(messages)
    async with call.kernel(create=True, brought=brought) as kernel:
        opened, is_new = await open_chat(call, kernel, wish)
        talk = Talk(call, kernel, opened, lines)
        talk.attached = shown
        if talk.is_asked and not call.as_json:
            await _greet(talk, is_new=is_new)
        elif not is_named and not call.as_json:
            call.screen.note(f"new chat {opened.chat_id}", "dim")
        return await Repl(talk).go()


async def _greet(talk: Talk, *, is_new: bool) -> None:
    """Greet the person who opens the chat: print its name and its state."""
    from artelier.cli.chat.show_commands import show_turn

    session = talk.session
    settings = await session.settings()
    about = f", profile {settings.profile}" if settings.profile else ""
    new = "new chat" if is_new else "chat"
    talk.screen.note(f"{new} {session.chat_id}: {settings.model}{about}; /help helps", "bold")
    for turn in await session.turns(limit=1):
        await show_turn(talk, turn)


CHATS_MAX = 10_000
"""Looked at; of more, those after it in the alphabet are not listed, which is said."""


async def list_chats(call: CliCall) -> int:
    """Chats with their branches and newest turn, the one that changed last first. Errors: `NotFound`."""
    from artelier.chat.queries.chats import newest_turn

    items: list[dict[str, Any]] = []
    async with call.kernel() as kernel:
        desk = kernel.for_tenant(call.tenant)
        after: str | None = ""
        while after is not None and len(items) < CHATS_MAX:
            page = await desk.chats(after=after or None, limit=1_000)
            after = page["next"]
            for one in page["items"]:
                items.append({**one, "turn": await newest_turn(desk.services.store, desk.id, one["chat_id"])})
    items.sort(key=lambda one: (-one["changed_us"], one["chat_id"]))
    if call.print_json({"items": items, "next": after}):
        return exit_codes.COMPLETED
    rows = [
        (
            one["chat_id"],
            display.line(one["title"], chars_max=40) + (" (archived)" if one["archived"] else ""),
            one["branches"],
            one["turn"],
            display.moment(one["changed_us"]),
        )
        for one in items
    ]
    call.screen.table(("chat", "title", ">branches", ">turn", "changed"), rows, empty="no chats")
    if after is not None:
        call.screen.note(f"only the first {CHATS_MAX:,} by name")
    return exit_codes.COMPLETED
