"""Slash commands that only look: state, feeds, turns, variants, branches, and why a prompt was what it was.

Values are shown of artifacts that people may see. Of all others `/explain` has name, version and size.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

import msgspec

from artelier.cli import display
from artelier.cli.chat.chat_options import COMMANDS, number, slash
from artelier.errors import ArtelierError, Erased, InvalidRequest, MissingKey, NotFound
from artelier.money import format_usd
from artelier.ports.media import media_facts

if TYPE_CHECKING:
    from artelier.chat import Turn
    from artelier.chat.queries.artifacts import StateVersion
    from artelier.chat.session.chat_reader import TurnMedium
    from artelier.chat.session.run_report import TurnOperation, TurnReport
    from artelier.cli.chat.conversation import Talk

TURNS_SHOWN = 10


@slash("help", help="This list.")
async def help_(talk: Talk) -> None:
    shown = [(f"/{one.name} {one.usage}".strip(), one.help) for one in COMMANDS.values()]
    if talk.data({"commands": [{"usage": usage, "help": text} for usage, text in shown]}):
        return
    talk.screen.facts(shown)
    talk.screen.note("Anything else is said. Ctrl-C ends a reply, Ctrl-D leaves.", "dim")


# Artifacts


@slash("state", help="The latest value of every artifact that is for people.")
async def state(talk: Talk) -> None:
    arts = await talk.restore_values(await talk.session.arts())
    if talk.data({"artifacts": arts}):
        return
    if not arts:
        talk.screen.note("nothing to see yet", "dim")
    for tag, art in arts.items():
        talk.screen.line(f"{tag} v{art['version']}  {art['semantics']}", "bold")
        _show_value(talk, art["value"], is_feed=art["append"])


def _show_value(talk: Talk, value: object, *, is_feed: bool) -> None:
    if is_feed and isinstance(value, list):
        entries = cast("list[Any]", value)
        if entries:
            talk.screen.line(f"  {_inline(entries[-1])}")
        if len(entries) > 1:
            more = len(entries) - 1
            talk.screen.line(f"  and {more:,} {'entry' if more == 1 else 'entries'} before", "dim")
    elif isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        talk.screen.facts([(f"  {display.line(name)}", _inline(one)) for name, one in fields.items()])
    else:
        talk.screen.line(f"  {_inline(value)}")


def _inline(value: object) -> str:
    """A value on one line: a text as it is, a list of texts with commas, anything else as JSON."""
    if isinstance(value, str):
        return display.line(value, chars_max=2_000)
    if isinstance(value, list) and all(isinstance(one, str) for one in cast("list[Any]", value)):
        return display.line(", ".join(cast("list[str]", value)), chars_max=2_000)
    return display.compact(value, chars_max=2_000)


@slash("feed", "TAG", help="A feed from its beginning, as far as it is kept.")
async def feed(talk: Talk, tag: str) -> None:
    entries = (await talk.restore_values(await talk.session.history(tag)))[::-1]
    if not talk.data({"tag": tag, "entries": entries}):
        _show_versions(talk, entries, empty="no entries yet")


@slash("history", "TAG", help="Earlier values of an artifact, newest first.")
async def history(talk: Talk, tag: str) -> None:
    versions = await talk.restore_values(await talk.session.history(tag))
    if not talk.data({"tag": tag, "versions": versions}):
        _show_versions(talk, versions, empty="no earlier values")


def _show_versions(talk: Talk, versions: list[StateVersion], *, empty: str) -> None:
    rows = [(f"v{one['version']}", display.minute(one["at_us"]), _inline(one["value"])) for one in versions]
    talk.screen.table(("version", "written", "value"), rows, empty=empty)


# The conversation


@slash("turns", "[COUNT]", help="The newest turns of this branch.")
async def turns(talk: Talk, count: str | None = None) -> None:
    limit = TURNS_SHOWN if count is None else max(1, min(1_000, number(count, "a count")))
    found = await talk.session.turns(limit=limit)
    if talk.data(await talk.restore_values({"turns": msgspec.to_builtins(list(map(_list_turn, found)))})):
        return
    if not found:
        talk.screen.note("nothing was said yet", "dim")
    for turn in found:
        await show_turn(talk, turn)


async def show_turn(talk: Talk, turn: Turn) -> None:
    """A turn as it stands."""
    others = len(turn.variants) - 1
    more = f", variant {turn.selected} of {others + 1}" if others > 0 else ""
    status = next((one.status for one in turn.variants if one.number == turn.selected), "done")
    mark = "" if status == "done" else f" ({status})"
    tokens = turn.user_tokens + sum(one.tokens for one in turn.variants if one.number == turn.selected)
    talk.screen.line(f"turn {turn.number}{more}{mark}, about {display.count(tokens, 'token')}", "dim")
    said, text = await talk.restore_values([turn.user, turn.text])
    if await _is_group(talk):
        persona, speaker = await talk.restore_values([turn.persona, turn.speaker])
        said = f"{persona}: {said}" if said and persona else said
        text = f"{speaker}: {text}" if text and speaker else text
    reply_hidden = any(one.is_hidden for one in turn.variants if one.number == turn.selected)
    if said:
        talk.screen.line(f"> {said}{' (hidden)' if turn.is_hidden else ''}", "bold")
    for position, medium in enumerate(turn.media, 1):
        talk.screen.note(f"attached {position}: {medium.kind}, {media_facts(medium)}", "dim")
    if thoughts := _thoughts(turn):
        words = display.count(len(thoughts.split()), "word")
        talk.screen.note(f"thought: {words}; /reasoning {turn.number} shows them", "dim")
    if text:
        talk.screen.line(f"{text}{' (hidden)' if reply_hidden else ''}")


async def _is_group(talk: Talk) -> bool:
    """Return True if several characters speak; False where nobody can read any more who does."""
    try:
        return bool((await talk.session.settings()).group)
    except (Erased, MissingKey):
        return False


class ListedTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn as `/turns` lists it; tokens are estimates."""

    turn: int
    user: str
    user_tokens: int
    persona: str
    media: list[TurnMedium]
    text: str
    tokens: int
    """Of the variant that is selected."""
    speaker: str
    selected: int
    variants: int


def _list_turn(turn: Turn) -> ListedTurn:
    return ListedTurn(
        turn=turn.number,
        user=turn.user,
        user_tokens=turn.user_tokens,
        persona=turn.persona,
        media=turn.attached,
        text=turn.text,
        tokens=next((one.tokens for one in turn.variants if one.number == turn.selected), 0),
        speaker=turn.speaker,
        selected=turn.selected,
        variants=len(turn.variants),
    )


@slash("search", "WORDS ...", help="Messages of this branch with some words, the newest first.")
async def search(talk: Talk, *words: str) -> None:
    found = await talk.session.search(" ".join(words))
    shown = await talk.restore_values([one.text for one in found])
    rows = [
        (one.turn, "you" if one.role == "user" else f"reply {one.variant}", _inline(text))
        for one, text in zip(found, shown, strict=True)
    ]
    items = [
        {"turn": one.turn, "variant": one.variant, "text": text}
        for one, text in zip(found, shown, strict=True)
    ]
    if not talk.data({"items": items}):
        talk.screen.table((">turn", "who", "text"), rows, empty="not found")


@slash("variants", "[TURN]", help="The variants of a turn, else of the newest.")
async def variants(talk: Talk, turn: str | None = None) -> None:
    found = await talk.session.turn(None if turn is None else number(turn, "a turn"))
    listed = [
        {
            "variant": one.number,
            "selected": one.number == found.selected,
            "status": one.status,
            "run_id": one.run_id,
            "text": await talk.restore_values(one.text),
        }
        for one in found.variants
    ]
    if talk.data({"turn": found.number, "variants": listed}):
        return
    rows = [
        ("*" if one["selected"] else "", one["variant"], one["status"], display.line(str(one["text"])))
        for one in listed
    ]
    talk.screen.table(("", ">variant", "status", "text"), rows, empty="the turn has no reply")


@slash("reasoning", "[TURN]", help="What the model thought before the reply of a turn, else of the newest.")
async def reasoning(talk: Talk, turn: str | None = None) -> None:
    found = await talk.session.turn(None if turn is None else number(turn, "a turn"))
    thoughts = await talk.restore_values(_thoughts(found))
    if not talk.data({"turn": found.number, "variant": found.selected, "reasoning": thoughts}):
        talk.screen.line(thoughts) if thoughts else talk.screen.note("the model has shown none", "dim")


def _thoughts(turn: Turn) -> str:
    shown = (one.parts for one in turn.variants if one.number == turn.selected)
    return "\n\n".join(part["text"] for parts in shown for part in parts if part["channel"] == "reasoning")


@slash("branches", help="The branches of this chat.")
async def branches(talk: Talk) -> None:
    found = await talk.session.branches()
    if talk.data({"branches": found}):
        return
    rows = [
        ("*" if one["is_current"] else "", one["name"], one["turn"], one["origin"], one["status"])
        for one in found
    ]
    talk.screen.table(("", "branch", ">turn", "from", "newest run"), rows, empty="none")


@slash("sessions", help="The sessions of the profile, each with its own artifacts.")
async def sessions(talk: Talk) -> None:
    found = await talk.session.sessions()
    if talk.data({"sessions": found}):
        return
    rows = [
        ("*" if one["is_current"] else "", one["session_id"], one["runs"], display.moment(one["used_us"]))
        for one in found
    ]
    talk.screen.table(("", "session", ">runs", "used"), rows, empty="no profile, and so no sessions")


# Why


async def _run_of(talk: Talk, turn: str | None) -> str:
    """The run of the selected variant of a turn; of the newest turn without one, the run that failed.

    Errors: `NotFound` for a greeting and for imported turns.
    """
    found = await talk.session.turn(None if turn is None else number(turn, "a turn"))
    for one in found.variants:
        if one.number == found.selected and one.run_id:
            return one.run_id
    run_id = (await talk.session.branch_row()).run
    if turn is None and run_id and not found.selected:
        return run_id
    raise NotFound(f"turn {found.number} was not replied to by a run here")


@slash("prompt", "[TURN]", help="The exact request of a turn, else of the newest.")
async def prompt(talk: Talk, turn: str | None = None) -> None:
    from artelier.chat.turn.main_call import reply_step
    from artelier.cli.objects.manifest import readable

    run_id = await _run_of(talk, turn)
    step = await reply_step(talk.desk.services.store, talk.desk.id, run_id)
    request, _ = await talk.desk.shown(run_id, step)
    if talk.call.as_json:
        talk.screen.text(request.canonical().decode())
    else:
        talk.screen.line(readable(request))


@slash("explain", "[TURN]", help="What a turn did and why: plan, operations, effects, prompt.")
async def explain(talk: Talk, turn: str | None = None) -> None:
    shown = await talk.session.show(await _run_of(talk, turn))
    state = await _sizes(talk)
    if talk.data({**shown, "state": state}):
        return
    talk.screen.facts(
        [
            ("run", shown["id"]),
            ("status", shown["status"]),
            ("trigger", shown["trigger"]),
            ("profile", shown["profile"]),
            ("session", shown["session_id"]),
            ("finish", shown["finish_reason"]),
            ("failed", display.arguments(shown["failed"]) if shown["failed"] else ""),
        ]
    )
    talk.screen.line()
    talk.screen.table(("at", "operation", "kind", "status", "why"), _operations(shown), empty="no profile")
    _effects(talk, shown["reports"])
    _prompt_parts(talk, shown)
    rows = [(one.tag, f"v{one.version}", one.usage, display.size(one.size_bytes)) for one in state]
    if rows:
        talk.screen.line()
        talk.screen.table(("artifact", "now", "usage", ">size"), rows, empty="")


@slash("debug", "[TURN] [OPERATION]", help="Each operation's error in full, what it saw and what it found.")
async def debug(talk: Talk, turn: str | None = None, operation: str | None = None) -> None:
    if turn is not None and operation is None and not turn.isdecimal():
        turn, operation = None, turn
    shown = await talk.session.show(await _run_of(talk, turn), internal=True)
    found = [one for one in shown["operations"] if operation in (None, one["operation_id"])]
    if not found and operation is not None:
        known = ", ".join(one["operation_id"] for one in shown["operations"])
        raise NotFound(f"the turn has no operation {operation[:60]!r}", expected=known[:300] or "none")
    if operation is not None:
        await _add_scopes(talk, shown["id"], found)
    found = await talk.restore_values(found)
    if talk.data({"run_id": shown["id"], "operations": found}):
        return
    planned = {(one["operation_id"], one["hook"]): one for one in shown["plan"]}
    for one in found:
        why = _why(planned.get((one["operation_id"], one["hook"]), {}), one)
        talk.screen.line(f"{one['operation_id']} at {one['hook']}: {one['status']}", "bold")
        parts = [("why", why), ("error", display.line(str(one.get("message") or ""), chars_max=4_000))]
        for name, key in (("saw", "scope"), ("found", "result")):
            parts.append((name, display.compact(one[key], chars_max=4_000) if one.get(key) else ""))
        talk.screen.facts([(f"  {name}", text) for name, text in parts if text])


async def _add_scopes(talk: Talk, run_id: str, found: list[TurnOperation]) -> None:
    """Add what operations saw, of those that did not fail as well."""
    for one in found:
        with suppress(ArtelierError):  # the turn is at work, or did not come so far
            one["scope"] = await talk.session.scope_of(run_id, one["operation_id"], hook=one["hook"])


@slash(
    "again", "[TURN] OPERATION [current]", help="Run one operation again over what it saw; nothing changes."
)
async def again(talk: Talk, *words: str) -> None:
    turn, *rest = words if words and words[0].isdecimal() else (None, *words)
    if not rest or len(rest) > 2 or rest[1:] not in ([], ["current"]):
        raise InvalidRequest("/again", expected="[TURN] OPERATION [current]", got=" ".join(words)[:80])
    run_id = await _run_of(talk, turn)
    trial = await talk.session.run_operation(run_id, rest[0], current=len(rest) == 2)
    (told,) = await talk.restore_values([asdict(trial)])
    if talk.data(told):
        return
    talk.screen.line(f"{told['operation_id']} at {told['hook']}, again: {told['status']}", "bold")
    why = "; ".join(word for word in (told["reason"], told["code"]) if word)
    parts = [("why", why), ("error", display.line(told["message"], chars_max=4_000))]
    if told["status"] == "done":
        parts.append(("found", display.compact(told["value"], chars_max=4_000)))
        parts += [("would change", display.compact(one, chars_max=1_000)) for one in told["effects"]]
    parts += [("cost", f"{format_usd(told['cost_microusd'])} USD"), ("run", told["run_id"])]
    talk.screen.facts([(f"  {name}", text) for name, text in parts if text])


class ArtSize(msgspec.Struct, frozen=True, kw_only=True):
    """An artifact of a session, without what is in it."""

    tag: str
    version: int
    usage: str
    semantics: str
    size_bytes: int
    """Of its value as JSON."""


async def _sizes(talk: Talk) -> list[ArtSize]:
    """All artifacts of the session."""
    arts = await talk.session.arts(internal=True)
    return [
        ArtSize(
            tag=tag,
            version=art["version"],
            usage=art["usage"],
            semantics=art["semantics"],
            size_bytes=len(msgspec.json.encode(art["value"])),
        )
        for tag, art in arts.items()
    ]


def _operations(shown: TurnReport) -> list[tuple[object, ...]]:
    """The plan, in the order of commit, with what each operation came to."""
    ended = {(one["operation_id"], one["hook"]): one for one in shown["operations"]}
    rows: list[tuple[object, ...]] = []
    for one in shown["plan"]:
        found = ended.get((one["operation_id"], one["hook"]))
        status = found["status"] if found else "skipped" if one.get("skipped") else "planned"
        rows.append(
            (one["hook"].partition("_")[0], one["operation_id"], one["kind"], status, _why(one, found))
        )
    return rows


def _why(planned: dict[str, Any], found: TurnOperation | None) -> str:
    reason = (found.get("reason") if found else "") or planned.get("skipped") or ""
    words: list[str] = [reason, (found.get("code") if found else "") or ""]
    if reason == "not_due":
        words.append(_counted(planned.get("counters") or {}))
    if found:
        words += _details(found.get("details") or {})
        if message := found.get("message"):
            words.append(display.line(str(message)))
    return "; ".join(dict.fromkeys(word for word in words if word))


def _counted(counters: dict[str, int]) -> str:
    """Return where an activation stands, such as `1 of 3 turns, 120 of 4,000 tokens`."""
    pairs = (("turns", "every_n_turns", "turns"), ("tokens", "every_n_context_tokens", "tokens"))
    return ", ".join(
        f"{counters.get(now, 0):,} of {counters[wanted]:,} {unit}"
        for now, wanted, unit in pairs
        if wanted in counters
    )


def _details(details: dict[str, Any]) -> list[str]:
    """Return what conditions saw, and how the operations before it ended that are not done."""
    words = [
        f"{one['source']}.{one['key']} is {display.compact(one['seen'])}"
        for one in details.get("conditions", ())
    ]
    ended: dict[str, str] = details.get("depends_on", {})
    words += [f"{name} is {status}" for name, status in ended.items() if status != "done"]
    rest = {name: one for name, one in details.items() if name not in ("conditions", "depends_on")}
    return [*words, display.arguments(rest)] if rest else words


def _effects(talk: Talk, reports: list[dict[str, Any]]) -> None:
    rows = [
        (
            one["hook"].partition("_")[0],
            one["operation_id"],
            one["type"],
            one.get("tag", ""),
            one["status"],
            one.get("code") or (f"v{one['version']}" if one.get("version") else ""),
        )
        for one in reports
    ]
    if rows:
        talk.screen.line()
        talk.screen.table(("at", "operation", "effect", "artifact", "status", ""), rows, empty="")


def _prompt_parts(talk: Talk, shown: TurnReport) -> None:
    rows = [
        (at, one["tag"], one["tokens"] or "", ", ".join(one["src"]), one["cut"])
        for at, one in enumerate(shown["prompt"], start=1)
    ]
    if not rows:
        return
    talk.screen.line()
    talk.screen.table((">", "prompt", ">tokens", "from, and why", "cut"), rows, empty="")
    for dropped in shown["dropped"]:
        talk.screen.line(f"left out: {dropped['tag']} ({dropped['why']})")
