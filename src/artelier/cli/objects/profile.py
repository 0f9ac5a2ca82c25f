"""`artelier profile`: profiles of operations, the shipped ones and those of this database."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from artelier.cli import display, exit_codes
from artelier.cli.call import CliCall
from artelier.cli.command import command, group
from artelier.errors import Erased, InvalidRequest, NotFound
from artelier.log.places import exists

if TYPE_CHECKING:
    from artelier.kernel.tenants.registry import TenantScope
    from artelier.operations.profile.definition import Operation, PromptInclusion
    from artelier.operations.profile.draft_parser import ProfileMistake
    from artelier.operations.profile.operation_profile import ListedProfile, OperationProfile

PAGE_MAX = 100

app = group("profile", help="Look at profiles of operations, check and store them.")

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="A shipped profile, or the id or ref of a stored one.")
]
File = Annotated[str, typer.Argument(metavar="FILE", help="A file of JSON.")]


@command(app, name="validate", example="artelier profile validate tavern.json")
async def validate(
    call: CliCall,
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="A file of JSON; or name a --profile.")
    ] = None,
    profile: Annotated[
        str | None, typer.Option("--profile", metavar="NAME", help="A shipped profile, or a stored one.")
    ] = None,
) -> int:
    """Check a profile, and name every mistake with its place.

    The exit code is 2 if there is one.
    """
    if (file is None) == (profile is None):
        raise InvalidRequest("one thing to check", expected="a FILE, or --profile NAME")
    from artelier.operations.profile.operation_profile import mistakes_in

    if file is not None:
        content, where = _read(call, file), file
    else:
        content, where = await _content(call, profile or "")
    return _print_mistakes(call, mistakes_in(content), where)


def _print_mistakes(call: CliCall, mistakes: Sequence[ProfileMistake], where: str) -> int:
    """Every mistake as data; the exit code."""
    if call.as_json:
        call.screen.json({"valid": not mistakes, "from": where, "errors": list(mistakes)})
    elif mistakes:
        rows = [(one["path"] or ".", one["code"], one["message"]) for one in mistakes]
        call.screen.table(("where", "rule", "what is wrong"), rows, empty="")
        call.screen.note(f"{where}: {display.count(len(mistakes), 'mistake')}", "red")
    else:
        call.screen.note(f"{where} is valid", "green")
    return exit_codes.USAGE if mistakes else exit_codes.COMPLETED


@command(app, name="list", example="artelier profile list")
async def list_profiles(
    call: CliCall,
    after: Annotated[
        str | None, typer.Option("--after", metavar="ID", help="Go on after a page's `next`.")
    ] = None,
) -> None:
    """List the shipped profiles and those of this database."""
    from artelier.operations.profile.operation_profile import ListedProfile

    items = [] if after else ListedProfile.all_shipped()
    broken: dict[str, str] = {}
    following: str | None = None
    if _has_database(call):
        async with call.kernel() as kernel:
            desk = kernel.for_tenant(call.tenant)
            following = await _add_stored(call, desk, items, broken, after=after)
    if call.print_json({"items": items, "next": following, "invalid": [*broken]}):
        return
    rows = [(one.profile_id, one.source, one.operations, one.name) for one in items]
    call.screen.table(("profile", "from", ">operations", "name"), rows, empty="no profiles")
    for ref, why in broken.items():
        call.screen.note(f"{ref} {why}", "yellow")
    if following is not None:
        call.screen.note(f"more: --after {following}")


async def _add_stored(
    call: CliCall, desk: TenantScope, items: list[ListedProfile], broken: dict[str, str], *, after: str | None
) -> str | None:
    """One page of stored profiles, those that cannot be used with the reason; after which id to go on."""
    from artelier.operations.profile.operation_profile import InvalidProfile
    from artelier.operations.profile.profile_reader import list_profile
    from artelier.operations.profile.store import KIND

    artifacts = desk.as_principal(call.person).artifacts
    stored = await artifacts.list(kind=KIND, limit=PAGE_MAX, after=after)
    for one in stored:
        ref = f"{one.id}@{one.version}"
        try:
            items.append(await list_profile(desk, ref, by=call.person))
        except InvalidProfile:
            broken[ref] = "is not valid under today's rules"
        except Erased:
            broken[ref] = "was erased"
    return stored[-1].id if len(stored) == PAGE_MAX else None


@command(app, name="show", example="artelier profile show rp-basic")
async def show(call: CliCall, name: Name) -> None:
    """Show what a profile does, and when.

    Its operations stand in the order of commit, with what each writes; below them, what prompts include.
    """
    from artelier.operations.profile.operation_profile import parse_profile

    content, source = await _content(call, name)
    profile = parse_profile(content)
    if call.print_json({"from": source, "profile": profile.data()}):
        return
    call.screen.facts(
        [
            ("profile", profile.profile_id),
            ("name", profile.name),
            ("from", source),
            ("session", profile.session_id),
            ("at once", 1 if profile.execution_mode == "sequential" else profile.parallel_max),
            ("deadline", f"{profile.deadline_s:g} s" if profile.deadline_s else ""),
            ("enabled", "" if profile.enabled else "no: a plain main call"),
            ("about", profile.description),
        ]
    )
    call.screen.line()
    columns = ("at", "operation", "kind", "when", "does")
    call.screen.table(columns, list(_operation_rows(profile)), empty="no operations")
    if profile.inclusions:
        call.screen.line()
        columns = ("prompt includes", "place", "role", ">tokens", "when")
        call.screen.table(columns, [_inclusion_row(one) for one in profile.inclusions], empty="")


def _operation_rows(profile: OperationProfile) -> Iterable[tuple[str, ...]]:
    from artelier.operations.graph.plan import in_commit_order
    from artelier.operations.profile.definition import HOOKS

    for hook in HOOKS:
        own = in_commit_order(one for one in profile.operations if hook in one.hooks)
        for number, one in enumerate(own):
            at = hook.partition("_")[0] if number == 0 else ""
            yield (at, one.operation_id, one.kind, _when(one), _does(one))


def _when(operation: Operation) -> str:
    """Under which conditions an operation runs."""
    words: list[str] = [] if operation.enabled else ["disabled"]
    if operation.required:
        words.append("required")
    if len(operation.triggers) == 1:
        words.append(f"on {operation.triggers[0]}")
    if operation.depends_on:
        words.append(f"after {', '.join(operation.depends_on)}")
    for condition in operation.run_conditions:
        negation = "" if condition.operator == "is_true" else "not "
        words.append(f"if {negation}{condition.source}.{condition.key}")
    due = operation.activation
    if due is not None and due.every_n_turns:
        words.append(f"every {due.every_n_turns} turns")
    if due is not None and due.every_n_context_tokens:
        words.append(f"every {due.every_n_context_tokens} tokens")
    return "; ".join(words)


def _does(operation: Operation) -> str:
    """Return what an operation changes."""
    words: list[str] = []
    for effect in operation.effects:
        if effect.type != "artifact.upsert":
            words.append(effect.type)
            continue
        verb = "appends to" if effect.write_mode == "append" else "writes"
        kept = "" if effect.persistence == "persisted" else ", this run only"
        words.append(f"{verb} art.{effect.tag} ({effect.usage}{kept})")
    return "; ".join(words)


def _inclusion_row(rule: PromptInclusion) -> tuple[object, ...]:
    when = [f"on {rule.when.trigger}"] if rule.when.trigger else []
    when += ["if its condition holds"] if rule.when.condition else []
    return (rule.source, rule.place, rule.role, rule.max_tokens or "", "; ".join(when))


@command(app, name="import", example="artelier profile import tavern.json")
async def import_(
    call: CliCall,
    file: File,
    program: Annotated[
        str, typer.Option("--from", metavar="PROGRAM", help="Who wrote it: artelier or talespinner.")
    ] = "artelier",
) -> int:
    """Store a profile as an artifact, if nothing is wrong with it.

    It becomes a new version of the one with its profile_id; what has not changed gets none.
    """
    from artelier.operations.profile.operation_profile import InvalidProfile, parse_profile

    content = _written_by(call, program, _read(call, file))
    try:
        profile = parse_profile(content)
    except InvalidProfile as error:
        if call.as_json:  # all mistakes, not only the first ones that fit into one message
            call.screen.json({"error": {**error.to_wire(), "errors": list(error.errors)}})
            return exit_codes.of_error(error)
        return _print_mistakes(call, error.errors, file)
    async with call.kernel(create=True) as kernel:
        ref = await profile.save(kernel.for_tenant(call.tenant), by=call.person)
    if not call.print_json({"ref": ref, "profile_id": profile.profile_id}):
        call.screen.line(ref)
    return exit_codes.COMPLETED


@command(app, name="export", example="artelier profile export rp-basic mine.json")
async def export(
    call: CliCall,
    name: Name,
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="Where to write; it is replaced. Else stdout.")
    ] = None,
) -> None:
    """Write a profile as JSON, to be changed and imported again."""
    from artelier.operations.profile.operation_profile import parse_profile

    content, source = await _content(call, name)
    profile = parse_profile(content)
    if file is None:
        call.screen.json(profile.data())
        return
    try:
        Path(file).write_text(display.json_text(profile.data()) + "\n", encoding="utf-8")
    except OSError as error:
        raise InvalidRequest("this file cannot be written", got=f"{file}: {error.strerror}") from None
    if not call.print_json({"file": file, "from": source, "profile_id": profile.profile_id}):
        call.screen.line(f"{file}: {profile.profile_id}, {source}")


def _written_by(call: CliCall, program: str, content: bytes) -> object:
    """Return a profile as data, whichever program wrote it. Errors: `InvalidRequest`, `InvalidImport`."""
    if program == "artelier":
        return content
    if program != "talespinner":
        raise InvalidRequest("no such program", expected="artelier or talespinner", got=program[:60])
    from artelier.operations.profile.talespinner import read_talespinner

    foreign = read_talespinner(content)
    for warning in foreign.warnings:
        call.screen.note(f"note: {warning}", "yellow")
    return foreign.data


def _has_database(call: CliCall) -> bool:
    return exists(call.database)


async def _content(call: CliCall, name: str) -> tuple[object, str]:
    """A profile's content, and what it is from: a stored one goes before a shipped one of its name.

    Errors: `NotFound`, `AccessDenied`, `InvalidRequest` for what is no ref or no profile.
    """
    from artelier.operations.profile.store import SHIPPED, SHIPPED_SOURCE, read_profile, shipped_text

    call.allow_plugins()
    if _has_database(call):
        async with call.kernel() as kernel:
            try:
                return await read_profile(kernel.for_tenant(call.tenant), name, by=call.person)
            except NotFound as error:
                if name not in SHIPPED:
                    error.hint = error.hint or f"Shipped are {', '.join(SHIPPED)}."
                    raise
    return shipped_text(name), SHIPPED_SOURCE


def _read(call: CliCall, file: str) -> bytes:
    """The bytes of a file, at most one more than a profile may have. Errors: `NotFound`, `InvalidRequest`."""
    from artelier.operations.profile.draft_parser import BYTES_MAX

    call.allow_plugins()
    try:
        with Path(file).open("rb") as opened:
            return opened.read(BYTES_MAX + 1)
    except FileNotFoundError:
        raise NotFound("there is no such file", got=file) from None
    except OSError as error:
        raise InvalidRequest("this file cannot be read", got=f"{file}: {error.strerror}") from None
