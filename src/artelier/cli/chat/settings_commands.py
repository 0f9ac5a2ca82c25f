"""Slash commands about the settings of a chat: samplers, people, the profile, quick replies, notes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from artelier.chat.session.settings import CHANGEABLE
from artelier.cli.chat.chat_options import slash
from artelier.errors import InvalidRequest, NotFound
from artelier.ports.model_params import parse_params

if TYPE_CHECKING:
    from artelier.chat.session.settings import StoredChatSettings
    from artelier.cli.chat.conversation import Talk

NONE = "none"
"""Takes a setting back."""
_TEXTS = ("model", "system", "user", "char", "description")
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
        "user": settings.user.get("name"),
        "char": settings.char.get("name"),
        "description": settings.char.get("description"),
        "system": settings.system or None,
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
        from artelier.cli.chat.chat_options import wished_profile

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
