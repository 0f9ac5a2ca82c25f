"""`artelier skills`: what agents can load, and what waits for a person's look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from artelier.cli import display
from artelier.cli.call import CliCall
from artelier.cli.command import command, group
from artelier.errors import InvalidRequest

if TYPE_CHECKING:
    from artelier.app import Kernel
    from artelier.tools.skills import Skills
    from artelier.tools.skills.approval import SkillReport


STATUSES = ("active", "parked", "refused")

app = group("skills", help="Look at skills, and approve or refuse those that are parked.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="As `skills list` shows it; or SOURCE/NAME.")]
Note = Annotated[str, typer.Option("--note", metavar="TEXT", help="Why; kept with the decision.")]
Hash = Annotated[
    str | None, typer.Option("--hash", metavar="HEX", help="Only if this is the definition (8+ characters).")
]


def _of(call: CliCall, kernel: Kernel) -> Skills:
    from artelier.tools.skills import Skills

    return Skills(kernel.services, call.tenant)


@command(app, name="list", example="artelier skills list --status parked")
async def list_skills(
    call: CliCall,
    status: Annotated[
        str | None, typer.Option("--status", metavar="STATUS", help="active, parked or refused.")
    ] = None,
) -> None:
    """List the skills that were ever seen in this tenant.

    Sources are asked as a run begins or goes on: what changed at one since then is not seen yet.
    """
    if status is not None and status not in STATUSES:
        raise InvalidRequest("unknown status", expected=", ".join(STATUSES), got=status)
    async with call.kernel() as kernel:
        found = await _of(call, kernel).list()
        listed_us = await _of(call, kernel).listed_us()
    found = [one for one in found if status in (None, one["status"])]
    if call.print_json({"items": found, "next": None, "listed_us": listed_us}):
        return
    rows = [
        (
            one["skill"],
            one["status"],
            one["origin"],
            one["hash"][:12],
            one["source"],
            display.minute(one["changed_us"]),
        )
        for one in found
    ]
    columns = ("skill", "status", "origin", "hash", "source", "since")
    call.screen.table(columns, rows, empty=f"no skills in tenant {call.tenant}")
    when = "not yet" if listed_us is None else display.moment(listed_us)
    call.screen.note(f"last listed by a run: {when}; the next run looks again")


@command(app, name="show", example="artelier skills show pdf-forms")
async def show(
    call: CliCall,
    name: Name,
    file: Annotated[
        str | None, typer.Option("--file", metavar="PATH", help="Print this file of its folder as it is now.")
    ] = None,
) -> None:
    """Show a skill's newest definition, and why it is parked.

    Characters that nobody can see are written out. A --file that changed since it was listed is not shown.
    """
    if file is not None:
        await _show_file(call, name, file)
        return
    async with call.kernel() as kernel:
        found = await _of(call, kernel).show(name)
    if call.print_json(found):
        return
    _facts(call, found)
    for number, reason in enumerate(found["reasons"]):
        call.screen.line(f"{'reasons' if number == 0 else '':<10}  {reason}")
    call.screen.line()
    for line in found["definition"].split("\n"):
        call.screen.line(line)


async def _show_file(call: CliCall, name: str, path: str) -> None:
    async with call.kernel() as kernel:
        text = await _of(call, kernel).file(name, path)
    if call.print_json({"skill": name, "path": path, "text": text}):
        return
    for line in text.split("\n"):
        call.screen.line(line)


@command(app, name="diff", example="artelier skills diff pdf-forms")
async def diff(call: CliCall, name: Name) -> None:
    """Show what changed since a skill could last be used.

    Files beside its SKILL.md that changed are named; `skills show NAME --file PATH` prints one.
    """
    async with call.kernel() as kernel:
        skills = _of(call, kernel)
        found, files = await skills.diff(name), await skills.files_changed(name)
    if call.print_json({"skill": name, "diff": found, "files": files}):
        return
    _say_diff(call, found)
    for one in files:
        looking = call.command_line("skills", "show", name, "--file", one["path"])
        hint = "" if one["change"] == "gone" else f"; look at it with: {looking}"
        call.screen.note(f"{one['path']} is {one['change']}{hint}")


def _say_diff(call: CliCall, found: str) -> None:
    if found:
        for line in found.split("\n"):
            call.screen.line(line)
    else:
        call.screen.note("no difference")


@command(app, name="approve", example="artelier skills approve pdf-forms --hash 3f2a9c01")
async def approve(call: CliCall, name: Name, note: Note = "", hash: Hash = None) -> None:
    """Let a parked or refused definition be used.

    Agents have it from their next listing on. Name the --hash that you looked at, and nothing newer can be
    approved by mistake.
    """
    async with call.kernel() as kernel:
        found = await _of(call, kernel).approve(name, by=call.person, note=note, hash=hash)
    _say(call, found)


@command(app, name="refuse", example="artelier skills refuse pdf-forms --note 'not ours'")
async def refuse(call: CliCall, name: Name, note: Note = "", hash: Hash = None) -> None:
    """Forbid a skill, also one in use.

    What was loaded is refused at its next call. A definition that changes is parked anew.
    """
    async with call.kernel() as kernel:
        found = await _of(call, kernel).refuse(name, by=call.person, note=note, hash=hash)
    _say(call, found)


def _say(call: CliCall, found: SkillReport) -> None:
    if not call.print_json(found):
        _facts(call, found)


def _facts(call: CliCall, found: SkillReport) -> None:
    call.screen.facts(
        [
            ("skill", found["skill"]),
            ("status", found["status"]),
            ("source", found["source"]),
            ("hash", found["hash"]),
            ("usable was", found["active_hash"] if found["active_hash"] != found["hash"] else ""),
            ("decided by", found["decided_by"]),
            ("since", display.moment(found["changed_us"])),
            ("note", found.get("note")),
        ]
    )
