"""`artelier agents`: who has worked here, and carrying one of them elsewhere in one file."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from artelier.cli import display
from artelier.cli.call import CliCall
from artelier.cli.command import command, group
from artelier.errors import InvalidRequest, NotFound

if TYPE_CHECKING:
    from artelier.agents.agent_directory import AgentProfile, CardSkill
    from artelier.agents.transfer import Carried

app = group("agents", help="Look at agents, and carry one elsewhere with its memory.")

AgentId = Annotated[str, typer.Argument(metavar="AGENT", help="Id of the agent.")]


@command(app, name="list", example="artelier agents list")
async def list_agents(
    call: CliCall,
    after: Annotated[
        str | None, typer.Option("--after", metavar="AGENT", help="Go on after a page's `next`.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", help="Agents at most.", min=1, max=1000)
    ] = 100,
) -> None:
    """List the agents that have runs or a memory, by id.

    The cost is that of their own runs, without their sub-agents'.
    """
    async with call.kernel() as kernel:
        found = await kernel.for_tenant(call.tenant).agents(after=after, limit=limit)
    if call.print_json(found):
        return
    from artelier.money import format_usd

    rows = [
        (
            one["agent"],
            one["runs"],
            one["last_run"] or "",
            display.minute(one["last_us"]) if one["last_us"] else "",
            "" if one["entries"] is None else one["entries"],
            format_usd(one["cost_microusd"]),
        )
        for one in found["items"]
    ]
    columns = ("agent", ">runs", "last run", "started", ">entries", ">USD")
    call.screen.table(columns, rows, empty=f"no agents in tenant {call.tenant}")
    if found["next"] is not None:
        call.screen.note(f"more: --after {found['next']}")


@command(app, name="show", example="artelier agents show analyst")
async def show(call: CliCall, agent: AgentId) -> None:
    """Show an agent: prompts, model, memory, skills."""
    async with call.kernel() as kernel:
        found = await kernel.for_tenant(call.tenant).show_agent(agent)
    if call.print_json(found):
        return
    from artelier.money import format_usd

    card, memory = found["card"], found["card"]["memory"]
    call.screen.facts(
        [
            ("agent", found["agent"]),
            ("runs", _runs(found)),
            ("cost", f"{format_usd(found['cost_microusd'])} USD"),
            ("sub-agents", ", ".join(found["sub_agents"])),
            ("model", card.get("model")),
            *((name, _prompt(value)) for name, value in card["prompts"].items()),
            ("tools", ", ".join(card["tools"])),
            ("accepts", ", ".join(card.get("acceptance", ()))),
            ("memory", _memory(found)),
            ("blocks", "\n".join(f"{label}: {ref}" for label, ref in memory.get("blocks", {}).items())),
            ("skills", "\n".join(_skill(one) for one in found["skills"])),
            ("card", found["written"] or "not written yet: an export writes it"),
        ]
    )


def _prompt(value: object) -> str:
    """A text, or one of several: texts and files."""
    if isinstance(value, list):
        return "\n".join(one if isinstance(one, str) else display.compact(one) for one in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - JSON
    return display.value_text(value) or ""


def _runs(found: AgentProfile) -> str:
    if not found["runs"]:
        return "none"
    return f"{found['runs']:,}, the newest {found['last_run']} of {display.moment(found['last_us'])}"


def _memory(found: AgentProfile) -> str:
    if found["entries"] is None:
        return f"in {found['memory_file']}" if found["memory_file"] else "none"
    changes = display.count(found["changes"], "change")
    words = "entry" if found["entries"] == 1 else "entries"
    return f"{found['card']['memory']['store']}: {found['entries']:,} {words}, {changes}"


def _skill(one: CardSkill) -> str:
    return f"{one['skill']}  {one['status']}  {one['hash'][:12]}  {one['source']}".rstrip()


@command(app, name="export", example="artelier agents export analyst analyst.artelier")
async def export(
    call: CliCall,
    agent: AgentId,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Where to write; it is replaced.")],
    memory_db: Annotated[
        str | None,
        typer.Option("--memory-db", metavar="FILE", help="Its memory, if it has a file of its own."),
    ] = None,
    without_memory: Annotated[bool, typer.Option("--without-memory", help="Leave its memory out.")] = False,
) -> None:
    """Write an agent into one verifiable file.

    It holds all its runs with what belongs to them, its memory with every change, its card and its skills;
    its sub-agents come along. Only you may read the file.
    """
    if memory_db is not None and without_memory:
        raise InvalidRequest("the memory comes along or it does not", got="both options")
    if memory_db is not None and not Path(memory_db).is_file():
        raise NotFound("there is no memory in this place", got=memory_db)
    async with call.kernel() as kernel:
        with ExitStack() as stack:
            store = None
            if memory_db is not None:
                from artelier.memory import SQLiteMemoryStore

                store = stack.enter_context(SQLiteMemoryStore(memory_db))
            stack.enter_context(call.screen.working(f"exporting {agent}"))
            done = await kernel.for_tenant(call.tenant).export_agent(
                agent, file, memory=store, without_memory=without_memory, by=call.person
            )
        head = await kernel.head()
    _print_transfer(call, done, f"{file}: ", head)


@command(app, name="import", example="artelier agents import analyst.artelier --tenant acme")
async def import_(
    call: CliCall,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file of `artelier agents export`.")],
) -> None:
    """Take an agent into this database.

    Its runs are records: they can be read, replayed and forked. Its memory is alive. Its skills wait for
    your approval.
    """
    async with call.kernel(create=True) as kernel:
        with call.screen.working(f"importing {file}"):
            done = await kernel.for_tenant(call.tenant).import_agent(file, by=call.person)
        head = await kernel.head()
    _print_transfer(call, done, "", head)
    if done.skills and not call.as_json:
        call.screen.note(f"parked until you approve: {', '.join(done.skills)}", "yellow")
        call.screen.note(f"look at them with: {call.command_line('skills', 'list')}")


def _print_transfer(call: CliCall, done: Carried, where: str, head: str) -> None:

    if call.print_json(done, head=head):
        return
    entries = f"{done.entries:,} {'entry' if done.entries == 1 else 'entries'}"
    call.screen.line(
        f"{where}agent {done.agent_id}, {display.count(len(done.runs), 'run')}, {entries},"
        f" {display.count(done.events, 'event')}, {display.count(done.blobs, 'blob')}"
    )
    call.screen.note(f"card {done.card}")
    call.screen.note(f"sha256 {done.sha256}")
    call.screen.note(f"head {head}")
