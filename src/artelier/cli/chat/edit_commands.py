"""Slash commands that change something: turns, variants, branches, sessions, files, settings of a chat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import msgspec

from artelier.chat.session.settings import CHANGEABLE, StoredChatSettings
from artelier.cli.chat.chat_options import (
    is_own_file,
    number,
    slash,
    warn,
    wished_profile,
    write_file,
    write_turns,
)
from artelier.cli.command import read_attachments
from artelier.cli.display import count
from artelier.errors import InvalidRequest, NotFound
from artelier.money import format_usd
from artelier.ports.model_params import parse_params

if TYPE_CHECKING:
    from artelier.chat.session.edits import Deleted
    from artelier.cli.chat.conversation import Talk


@slash("regenerate", help="Another variant of the newest turn, from the state before it.")
async def regenerate(talk: Talk) -> int:
    return await talk.reply("regenerate")


@slash("speak", "[NAME]", help="Have a character go on without words of yours; of a group, whom you name.")
async def speak(talk: Talk, name: str = "") -> int:
    return await talk.reply("speak", speaker=name)


@slash("impersonate", "[say]", help="Have the model write your next message; `say` says it at once.")
async def impersonate(talk: Talk, at_once: str = "") -> int:
    if at_once not in ("", "say"):
        raise InvalidRequest("/impersonate", expected="nothing, or say", got=at_once[:60])
    draft = await talk.session.impersonate()
    (text,) = await talk.restore_values([draft.text])
    if at_once:
        return await talk.reply("generate", draft.text)
    if not talk.data({**asdict(draft), "text": text}):
        talk.screen.line(f"> {text}", "bold")
        talk.screen.note(
            f"a draft ({draft.run_id}, {format_usd(draft.cost_microusd)} USD); nothing was said", "dim"
        )
    return 0


@slash("continue", help="Go on with the selected reply.")
async def continue_(talk: Talk) -> int:
    return await talk.reply("continue")


@slash("resume", help="Go on with a run that waited for something.")
async def resume(talk: Talk) -> int:
    return await talk.reply("resume")


@slash("cancel", help="End a run that waits for something, for good.")
async def cancel(talk: Talk) -> None:
    await talk.session.cancel()
    await talk.stand()


@slash("select", "TURN VARIANT", help="Go on from another variant of a turn, with its state.")
async def select(talk: Talk, turn: str, variant: str) -> None:
    await talk.session.select_variant(number(turn, "a turn"), number(variant, "a variant"))
    await talk.stand()


@slash("rewind", "TURN", help="Go on from an earlier turn; what came after is kept beside it.")
async def rewind(talk: Talk, turn: str) -> None:
    await talk.session.rewind(number(turn, "a turn"))
    await talk.stand()


@slash("attach", "FILE ...", help="Show images, sounds, PDFs or texts with your next message.")
async def attach(talk: Talk, *files: str) -> None:
    from artelier.artifacts.media.inspection import inspect_medium

    found = read_attachments(files)
    for content in found:
        await inspect_medium(content)
    talk.attached += found
    if not talk.data({"attached": len(talk.attached)}):
        talk.screen.note(f"{count(len(talk.attached), 'file')} with your next message", "dim")


@slash("edit", "TURN [TEXT ...]", help="Change the reply of a turn; without a text, the next line is it.")
async def edit(talk: Talk, turn: str, *text: str) -> None:
    await _revise(talk, turn, text, role="assistant")


@slash("reword", "TURN [TEXT ...]", help="Change your own words of a turn; what came after stays.")
async def reword(talk: Talk, turn: str, *text: str) -> None:
    await _revise(talk, turn, text, role="user")


async def _revise(talk: Talk, turn: str, words: tuple[str, ...], *, role: str) -> None:
    at = number(turn, "a turn")
    text = " ".join(words) or await talk.lines.next("new text: ")
    if not text:
        raise InvalidRequest("there is no new text", hint="Nothing was changed.")
    await talk.session.revise(text, turn=at, role=role)
    await talk.stand()


@slash(
    "rerun",
    "TURN [TEXT ...]",
    help="Run an earlier turn again, in other words if there are any, as a new variant with its own state.",
)
async def rerun(talk: Talk, turn: str, text: str = "") -> int:
    return await talk.reply("regenerate", text, turn=number(turn, "a turn"))


@slash("hide", "TURN [user|assistant]", help="Leave messages of a turn out of later prompts.")
async def hide(talk: Talk, turn: str, role: str = "") -> None:
    await talk.session.hide(turn=number(turn, "a turn"), role=role)
    await talk.stand()


@slash("unhide", "TURN [user|assistant]", help="Show them in prompts again.")
async def unhide(talk: Talk, turn: str, role: str = "") -> None:
    await talk.session.hide(turn=number(turn, "a turn"), role=role, hidden=False)
    await talk.stand()


@slash("delete", "TURN [VARIANT]", help="Delete a turn, or one reply of it; those after it stay.")
async def delete(talk: Talk, turn: str, variant: str | None = None) -> None:
    at = number(turn, "a turn")
    if variant is None:
        done = await talk.session.delete_turn(at)
    else:
        done = await talk.session.delete_variant(at, number(variant, "a variant"))
    what = f"turn {at}" if variant is None else f"reply {variant} of turn {at}"
    _tell_deleted(talk, what, done)


def _tell_deleted(talk: Talk, what: str, done: Deleted) -> None:
    if talk.data(asdict(done)):
        return
    talk.screen.note(f"{what} deleted", "dim")
    if not done.is_erased:
        talk.screen.note("said before messages had keys of their own: the words stay in the database", "dim")
    elif not done.is_cleaned:
        talk.screen.note("the words cannot be read any more; `artelier gc` takes their bytes out", "dim")
    if done.erased_runs:
        runs = count(len(done.erased_runs), "run")
        talk.screen.note(f"erased with it: the record of {runs} ({_some(done.erased_runs)})", "dim")
    gone = {*done.erased_runs, *done.unshown_runs}
    if left := [run for run in done.derived_runs if run not in gone]:
        talk.screen.note(f"made after it, and kept: {_some(left)}", "dim")
    if done.unshown_runs:
        talk.screen.note(f"kept, but on no branch: {_some(done.unshown_runs)}", "dim")
        talk.screen.note(f"/branch NAME {done.unshown_runs[-1]} opens what was said there", "dim")
    if done.derived_artifacts:
        talk.screen.note(f"made of it, and kept: {_some(done.derived_artifacts)}", "dim")


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


@slash("delete-branch", "NAME", help="Delete a branch, with the turns that no other shows.")
async def delete_branch(talk: Talk, name: str) -> None:
    _tell_deleted(talk, f"branch {name}", await talk.session.delete_branch(name))


@slash("delete-chat", "ID", help="Delete this chat; say its id, to be sure. You leave it.")
async def delete_chat(talk: Talk, id: str) -> None:
    if id != talk.session.chat_id:
        raise InvalidRequest(f"this is chat {talk.session.chat_id}", got=id[:120])
    _tell_deleted(talk, f"chat {id}", await talk.session.delete_chat())
    talk.is_over = True


@slash("title", "[WORDS ...]", help="Give the chat a title; without words, take it away.")
async def title(talk: Talk, *words: str) -> None:
    await talk.session.rename(" ".join(words))
    if not talk.data({"title": await talk.session.title()}):
        talk.screen.note(f"title: {await talk.session.title() or 'none'}", "dim")


@slash("archive", "[no]", help="Put the chat among the archived ones; `no` takes it back.")
async def archive(talk: Talk, back: str = "") -> None:
    await talk.session.archive(back != "no")
    if not talk.data({"archived": back != "no"}):
        talk.screen.note("archived" if back != "no" else "no longer archived", "dim")


@slash("branch", "[NAME] [AT]", help="Begin a branch after turn AT, or a run; go there.")
async def branch(talk: Talk, name: str | None = None, at: str | None = None) -> None:
    if name is not None and at is None and (name.isdecimal() or "/" in name):
        name, at = None, name  # a number or a run alone is where, not what it is called
    run = at if at is not None and "/" in at else None
    turn = None if at is None or run else number(at, "a turn")
    talk.session = await talk.session.branch(name, at_turn=turn, at_run=run)
    await talk.stand()


@slash("switch", "NAME", help="Go to another branch.")
async def switch(talk: Talk, name: str) -> None:
    talk.session = await talk.session.on(name)
    await talk.stand()


@slash("reset", "[ID]", help="Begin a new, empty session of the profile.")
async def reset(talk: Talk, session_id: str | None = None) -> None:
    begun = await talk.session.reset(session_id)
    if not talk.data({"session_id": begun}):
        talk.screen.note(f"session {begun} begins; /reopen goes back to an earlier one", "dim")


@slash("reopen", "ID", help="Go on with an earlier session of the profile.")
async def reopen(talk: Talk, session_id: str) -> None:
    await talk.session.reopen(session_id)
    if not talk.data({"session_id": session_id}):
        talk.screen.note(f"session {session_id}", "dim")


@slash("publish", "TAG [ID]", help="Make a document of the current value of an artifact.")
async def publish(talk: Talk, tag: str, id: str | None = None) -> None:
    ref = await talk.session.publish(tag, id=id)
    if not talk.data({"ref": ref}):
        talk.screen.note(ref, "dim")


@slash(
    "export",
    "FILE [KIND] [NAME]",
    help="Write the chat into a file, a .jsonl its turns; or its character, lorebook, persona, preset.",
)
async def export(talk: Talk, file: str, kind: str = "", name: str = "") -> None:

    if kind:
        made = await talk.session.export_file(kind, name=name)
        write_file(file, made.content)
        about = {"file": file, "kind": kind, "bytes": len(made.content), "is_original": made.is_original}
        if not talk.data(about):
            as_it_was = ", as it was taken in" if made.is_original else ""
            talk.screen.line(f"{file}: {kind}, {count(len(made.content), 'byte')}{as_it_was}")
            if PurePath(file).suffix.lower() != (suffix := PurePath(made.name).suffix):
                talk.screen.note(f"note: what is in it is a {suffix} file", "yellow")
        return
    if file.lower().endswith(".jsonl"):
        turns = await write_turns(talk.session, file)
        if not talk.data({"file": file, "turns": turns}):
            talk.screen.line(f"{file}: {count(turns, 'turn')}")
        return
    done = await talk.desk.export_chat(talk.session.chat_id, file)
    shown = {
        "file": file,
        "chat_id": done.chat_id,
        "runs": len(done.runs),
        "events": done.events,
        "sha256": done.sha256,
    }
    if not talk.data(shown):
        runs, events = count(len(done.runs), "run"), count(done.events, "event")
        talk.screen.line(f"{file}: {runs}, {events}, sha256 {done.sha256}")


@slash("import", "FILE [member]", help="Take in a card, lorebook, persona, preset, turns, or a whole chat.")
async def import_(talk: Talk, file: str, as_member: str = "") -> None:

    if not is_own_file(file):
        done = await talk.session.import_file(file, as_member=as_member == "member")
        if talk.data({"kind": done.kind, "name": done.name, "warnings": list(done.warnings)}):
            return
        warn(talk.screen, done.warnings)
        turns = f", {count(len(done.turns), 'turn')}" if done.turns else ""
        talk.screen.note(f"{file}: {done.kind} {done.name}{turns}", "dim")
        return
    done = await talk.desk.import_chat(file, by=talk.call.person)
    if not talk.data({"chat_id": done.chat_id, "runs": len(done.runs)}):
        way = talk.call.command_line("chat", done.chat_id)
        talk.screen.line(f"chat {done.chat_id}, {count(len(done.runs), 'run')}: {way}")


@slash("quit", help="Leave; the chat stays. So does Ctrl-D.")
async def quit_(talk: Talk) -> None:
    talk.is_over = True


NONE = "none"
"""Takes a setting back."""
_TEXTS = ("model", "system", "scenario", "user", "char", "description")
"""Settings that are words; of the others a value is JSON."""
_ELSEWHERE = {"profile": "/profile", "speaks": "/group", "note": "/note", "quick_replies": "/quick"}


@slash(
    "set",
    "[NAME] [VALUE ...]",
    help="A setting or sampler from the next turn on: user, system, temperature, ...; `none` takes it back.",
)
async def set_(talk: Talk, name: str = "", *words: str) -> None:
    value = " ".join(words)
    if value:
        await talk.session.change(**_change(await talk.session.settings(), name, value))
    shown = _shown(await talk.session.settings())
    if name and name not in shown:
        shown = {name: None}
    elif name:
        shown = {name: shown[name]}
    shown = await talk.restore_values(shown)
    if not talk.data({"settings": shown}):
        talk.screen.facts([(key, _plain(one)) for key, one in shown.items()])


def _change(now: StoredChatSettings, name: str, value: str) -> dict[str, Any]:
    """Return what `Session.change` is asked. Errors: `InvalidRequest`."""
    if name in _ELSEWHERE:
        raise InvalidRequest(f"/set {name}", hint=f"{_ELSEWHERE[name]} changes that.")
    if name == "description":
        if not now.char:
            raise InvalidRequest("/set description", expected="a character", hint="/set char NAME first.")
        return {"char": {**now.char, "description": "" if value == NONE else value}}
    if value == NONE:
        return {name: None}
    if name in ("user", "char") and not value.startswith("{"):
        return {name: {**getattr(now, name), "name": value}}
    if name in _TEXTS and not (name in ("user", "char") and value.startswith("{")):
        return {name: value}
    if name in CHANGEABLE:
        try:
            return {name: msgspec.json.decode(value.encode())}
        except (msgspec.DecodeError, RecursionError):
            raise InvalidRequest(f"/set {name}", expected="a value as JSON", got=value[:80]) from None
    return parse_params([f"{name}={value}"], option="/set")


def _shown(settings: StoredChatSettings) -> dict[str, Any]:
    """Return the settings that `/set` changes, by name."""
    return {
        "model": settings.model,
        "fallbacks": list(settings.fallbacks),
        "user": settings.user.get("name"),
        "char": settings.char.get("name"),
        "description": settings.char.get("description"),
        "system": settings.system or None,
        "scenario": settings.scenario or None,
        "variables": settings.variables or None,
        "prompts": [one.text[:40] if one.place == "text" else one.place for one in settings.prompts],
        "lorebooks": list(settings.lorebooks),
        "history_max": settings.history_max,
        "deadline_s": settings.deadline_ms / 1_000 if settings.deadline_ms else None,
        **settings.params,
    }


def _plain(value: object) -> str:
    if value is None or value == []:
        return NONE
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


@slash(
    "quick",
    "[LABEL [WORDS ...]]",
    help="Say a quick reply; with words, keep one; without a label, list them.",
)
async def quick(talk: Talk, label: str = "", *words: str) -> int:
    kept = {one.label: one.text for one in (await talk.session.settings()).quick_replies}
    if not label or words:
        if words:
            kept[label] = " ".join(words)
            await _keep_quick(talk, kept)
        if not talk.data({"quick_replies": [{"label": one, "text": text} for one, text in kept.items()]}):
            talk.screen.facts(list(kept.items()))
        return 0
    if label not in kept:
        raise NotFound(f"no quick reply {label[:60]!r}", expected=", ".join(kept)[:200] or "none yet")
    return await talk.reply("generate", kept[label])


@slash("quick-remove", "LABEL", help="Forget a quick reply.")
async def quick_remove(talk: Talk, label: str) -> None:
    kept = {one.label: one.text for one in (await talk.session.settings()).quick_replies}
    if kept.pop(label, None) is None:
        raise NotFound(f"no quick reply {label[:60]!r}", expected=", ".join(kept)[:200] or "none")
    await _keep_quick(talk, kept)
    if not talk.data({"removed": label}):
        talk.screen.note(f"{label} is forgotten", "dim")


async def _keep_quick(talk: Talk, kept: dict[str, str]) -> None:
    await talk.session.change(quick_replies=[{"label": one, "text": text} for one, text in kept.items()])


@slash("group", "[RULE]", help="Who takes part; how the next is chosen: list, mention, talkativeness, model.")
async def group(talk: Talk, rule: str | None = None) -> None:
    if rule is not None:
        await talk.session.change(speaks=rule)
    settings = await talk.session.settings()
    names = await talk.restore_values([str(one["name"]) for one in settings.group])
    if not talk.data({"group": names, "speaks": settings.speaks}):
        talk.screen.facts([("group", ", ".join(names) or "none: one character"), ("next", settings.speaks)])


@slash("note", "[WORDS ...]", help="The author's note before the newest messages; without words, none.")
async def note(talk: Talk, *words: str) -> None:
    await talk.session.change(note=" ".join(words) or None)
    kept = (await talk.session.settings()).note
    if not talk.data({"note": kept}):
        talk.screen.note(f"note: {kept.get('prompt', 'none')}", "dim")


@slash("profile", "[NAME]", help="Show the profile, or take another one; `none` for none.")
async def profile(talk: Talk, name: str | None = None) -> None:
    session = talk.session
    if name is not None:
        await session.change(profile=await wished_profile(talk.call, session.desk, name))
    found = await session.profile()
    if found is None:
        if not talk.data({"profile": None}):
            talk.screen.note("no profile: a plain main call", "dim")
        return
    current = await session.session_id(found)
    if talk.data({"profile": found.profile_id, "session_id": current, "data": found.data()}):
        return
    talk.screen.facts(
        [
            ("profile", found.profile_id),
            ("name", found.name),
            ("session", current),
            ("enabled", "" if found.enabled else "no: a plain main call"),
        ]
    )
    rows = [
        (one.operation_id, one.kind, ", ".join(one.hooks), ", ".join(_writes(one)))
        for one in found.operations
    ]
    columns = ("operation", "kind", "at", "writes")
    talk.screen.table(columns, rows, empty="no operations")


def _writes(operation: object) -> list[str]:
    artifact = getattr(operation, "artifact", None)
    return [] if artifact is None else [f"{artifact.tag} ({artifact.usage})"]
