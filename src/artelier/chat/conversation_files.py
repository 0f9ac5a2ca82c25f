"""Conversations of other programs, in and out: the turns of a JSONL file, and a branch as such a file.

A conversation is its turns and variants, and nothing of what Artelier adds to them: the whole chat, with its
runs and artifacts, is `chat_file.py`. The form of the lines is known to `operations/lore/chat_log.py`.
"""

from __future__ import annotations

import warnings
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec

from artelier.chat.rows import VARIANTS_MAX
from artelier.chat.session.chat_reader import ChatReader, Turn, Variant
from artelier.chat.session.settings import MEMBERS_MAX, NOTE_DEPTH_MAX, StoredChatSettings, checked_text
from artelier.errors import InvalidRequest
from artelier.operations.lore import chat_log
from artelier.operations.lore.macros import NAME_CHARS_MAX, VALUE_CHARS_MAX, VARIABLES_MAX
from artelier.operations.lore.untrusted_files import Source, as_dict, listed


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenChat:
    """A chat of another program, as `Session.import_turns` takes it."""

    user: str
    char: str
    turns: tuple[ForeignTurn, ...]
    group: tuple[str, ...] = ()
    """Names of the characters, if there are several."""
    note: dict[str, Any] = field(default_factory=dict[str, Any])
    """The author's note, as `Session.open` takes it; empty for none."""
    scenario: str = ""
    variables: dict[str, str] = field(default_factory=dict[str, str])
    warnings: tuple[str, ...]
    """The changes and omissions, in words."""

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings for a chat that has none of them, as `Session.open` takes them."""
        head = {"note": self.note, "scenario": self.scenario, "variables": self.variables}
        more: dict[str, Any] = {"group": list(self.group), **head}
        return {"user": self.user, "char": self.char, **{name: one for name, one in more.items() if one}}


def parse_chat(source: Source) -> TakenChat:
    """Return a chat from a JSONL file, or from its bytes.

    Errors: `InvalidImport` naming every line that cannot be read; `NotFound` for no such file.
    """
    chat = chat_log.read_chat(source)
    warnings = list(chat.warnings)
    turns = [turn for one in chat.turns for turn in _as_turns(one, warnings)]
    metadata = chat.extensions.get("chat_metadata")
    head = _head_settings(as_dict(metadata), warnings)
    warnings += _left_out(chat)
    if turns:
        turns[0] = _with_head(turns[0], chat)
    return TakenChat(
        user=chat.user,
        char=chat.char,
        group=_speakers(chat),
        turns=tuple(turns),
        warnings=tuple(dict.fromkeys(warnings)),
        **head,
    )


def _speakers(chat: chat_log.ImportedChat) -> tuple[str, ...]:
    """The names of several characters in the order in which they spoke first; none of one alone."""
    said = [one.name for turn in chat.turns for one in turn.messages if one.role == "assistant" and one.name]
    names = list(dict.fromkeys(said))
    return tuple(names[:MEMBERS_MAX]) if len({one.casefold() for one in names}) == len(names) > 1 else ()


def _as_turns(turn: chat_log.ChatLogTurn, warnings: list[str]) -> Iterator[ForeignTurn]:
    """Give a turn of a file, parted where a narrator or the program says something in it."""
    own: list[chat_log.ChatLogMessage] = []
    for message in (*turn.messages, None):
        if message is not None and (message.role != "system" or not message.text.strip()):
            own += [message] if message.role != "system" else []
            continue
        if own and (said := _turn(chat_log.ChatLogTurn(messages=tuple(own)), warnings)) is not None:
            yield said
        own = []
        if message is not None:
            yield _narrated(message, warnings)


def _narrated(message: chat_log.ChatLogMessage, warnings: list[str]) -> ForeignTurn:
    at_us = chat_log.sent_us(message.variants[message.selected].sent_at)
    turn = ForeignTurn(
        variants=(message.text,),
        speaker=message.name,
        sent_us=(0, at_us) if at_us else (),
        kept=("", _alone(message, warnings)),
    )
    if not message.hidden:
        warnings.append("messages of a narrator stand as replies")
        return turn
    warnings.append("messages of the program stand as replies that no prompt shows")
    return msgspec.structs.replace(turn, hidden=("assistant",), speaker=message.name or "System")


def _turn(turn: chat_log.ChatLogTurn, warnings: list[str]) -> ForeignTurn | None:
    """A turn of a file; None if it says nothing."""
    variants, selected = list(turn.variants), turn.selected
    reply = turn.reply
    wordings = list(reply.variants) if reply is not None else []
    if len(variants) > VARIANTS_MAX:
        first = max(0, selected - VARIANTS_MAX + 1)
        variants, selected = variants[first : first + VARIANTS_MAX], selected - first
        wordings = wordings[first : first + VARIANTS_MAX]
        warnings.append(f"of one turn {VARIANTS_MAX} variants are kept")
    if turn.user is None and not variants:
        return None
    names = {one.role: one.name for one in turn.messages if one.name}
    said = next((one for one in turn.messages if one.role == "user"), None)
    times = [0 if said is None else chat_log.sent_us(said.variants[said.selected].sent_at)]
    times += [chat_log.sent_us(one.sent_at) for one in wordings]
    thoughts = [checked_text(one.reasoning, what="reasoning") for one in wordings]
    kept = ["" if said is None else _alone(said, warnings)]
    kept += [_kept(one, reply if at == selected else None) for at, one in enumerate(wordings)]
    return ForeignTurn(
        user=turn.user,
        variants=tuple(variants),
        selected=selected,
        hidden=tuple(one.role for one in turn.messages if one.hidden and one.role != "system"),
        persona=names.get("user", ""),
        speaker=names.get("assistant", ""),
        reasoning=tuple(thoughts) if any(thoughts) else (),
        sent_us=tuple(times) if any(times) else (),
        kept=tuple(kept) if any(kept) else (),
    )


class _KeptLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The rest of a line of a message, beside its wordings."""

    extensions: dict[str, Any] = {}
    form: chat_log.Form = {}
    wordings: tuple[chat_log.ChatLogVariant, ...] = ()
    """All, where a turn shows one of them alone; the one that it shows is without its text."""
    selected: int = 0
    count: int = 1
    """Of wordings."""
    is_system: bool = False
    """True for words of a narrator, or of the program."""


class _Kept(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The rest of what a file says of a wording, which has no meaning here: it goes out again with it."""

    sent: str | None = None
    """The date as it is written there, if it is not written so here."""
    extra: dict[str, Any] | None = None
    """`extra`, if it holds more than the model's thoughts."""
    form: chat_log.Form = {}
    line: _KeptLine | None = None
    """Kept with the wording that was selected."""
    head: dict[str, Any] | None = None
    """The line above the first message, kept with that."""
    has_head: bool | None = None
    """False of a first message that has no line above it; None of all others."""


_NOTHING = _Kept()

WORDINGS_CHARS_MAX = 200_000
"""Of wordings that are kept beside the one that a message shows."""


def _alone(message: chat_log.ChatLogMessage, warnings: list[str]) -> str:
    """Return what is kept of a message that shows one wording here, whatever the file has."""
    wordings = list(message.variants)
    shown = wordings[message.selected]
    wordings[message.selected] = msgspec.structs.replace(shown, text="")
    if sum(len(one.text) + len(repr(one.extensions)) for one in wordings) > WORDINGS_CHARS_MAX:
        warnings.append("left out: very long other wordings of messages of the person")
        wordings = []
    return _kept(shown, message, tuple(wordings) if len(wordings) > 1 else ())


def _kept(
    one: chat_log.ChatLogVariant,
    message: chat_log.ChatLogMessage | None,
    wordings: tuple[chat_log.ChatLogVariant, ...] = (),
) -> str:
    """Return what is kept of a wording, as JSON; empty for nothing. `message`: whose line is kept with it."""
    line = message and _KeptLine(
        extensions=message.extensions,
        form=message.form,
        wordings=wordings,
        selected=message.selected,
        count=len(message.variants),
        is_system=message.role == "system",
    )
    has_line = line is not None and bool(line.extensions or line.form or line.wordings or line.is_system)
    usual = {"reasoning": one.reasoning} if one.reasoning else {}
    kept = _Kept(
        sent=None if one.sent_at == _date(chat_log.sent_us(one.sent_at)) else one.sent_at,
        extra=None if one.extensions == usual else one.extensions,
        form=one.form,
        line=line if has_line else None,
    )
    return "" if kept == _NOTHING else msgspec.json.encode(kept).decode()


def _read_kept(text: str) -> _Kept:
    """Return what was kept; nothing of what was erased."""
    try:
        return msgspec.json.decode(text, type=_Kept) if text else _NOTHING
    except msgspec.MsgspecError:
        return _NOTHING


def _with_head(turn: ForeignTurn, chat: chat_log.ImportedChat) -> ForeignTurn:
    """Return the first turn of a file, with which the line above it is kept."""
    at = 0 if turn.user is not None else 1 + turn.selected
    kept = [*turn.kept, *[""] * (turn.nodes - len(turn.kept))]
    first = msgspec.structs.replace(_read_kept(kept[at]), head=chat.head, has_head=chat.head is not None)
    kept[at] = msgspec.json.encode(first).decode()
    return msgspec.structs.replace(turn, kept=tuple(kept))


_NOTE_FIELDS = ("note_prompt", "note_depth", "note_role", "note_position", "note_interval")
_NOTE_ROLES = ("system", "user", "assistant")
_IN_CHAT = 1
"""The `note_position` of a note that stands among the messages."""
_HOUSEKEEPING = frozenset(("integrity", "chat_id_hash", "tainted", "lastInContextMessageId"))


def _head_settings(metadata: Mapping[str, Any], warnings: list[str]) -> dict[str, Any]:
    """Return what the head of a file sets in a chat: what is not there is left out, and what is not followed
    is named."""
    scenario = metadata.get("scenario")
    found = {
        "note": _author_note(metadata, warnings),
        "scenario": scenario if isinstance(scenario, str) and scenario.strip() else "",
        "variables": _variables(as_dict(metadata.get("variables")), warnings),
    }
    followed = {name for name, value in found.items() if value} | set(_NOTE_FIELDS) | _HOUSEKEEPING
    if left := sorted(name for name, value in metadata.items() if value and name not in followed):
        warnings.append(f"kept of chat_metadata, but not followed: {listed(left)}")
    return {name: value for name, value in found.items() if value}


def _variables(given: Mapping[str, Any], warnings: list[str]) -> dict[str, str]:
    """Return variables as texts; those of which there are too many, or which are too long, are left out."""
    texts = {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for name, value in given.items()
        if value is not None and len(name) <= NAME_CHARS_MAX
    }
    kept = [(name, text) for name, text in texts.items() if len(text) <= VALUE_CHARS_MAX][:VARIABLES_MAX]
    if len(kept) < len(given):
        warnings.append(f"variables: {len(kept):,} of {len(given):,} are followed")
    return dict(kept)


def _author_note(metadata: Mapping[str, Any], warnings: list[str]) -> dict[str, Any]:
    """Return the author's note of a file's head; empty if there is none."""
    prompt, depth, role = (metadata.get(f"note_{name}") for name in ("prompt", "depth", "role"))
    if not isinstance(prompt, str) or not prompt.strip():
        return {}
    if metadata.get("note_position", _IN_CHAT) != _IN_CHAT:
        warnings.append("note_position: the author's note stands among the messages here")
    if metadata.get("note_interval", 1) != 1:
        warnings.append("note_interval: the author's note stands in every prompt here")
    is_depth = isinstance(depth, int) and not isinstance(depth, bool) and 0 <= depth <= NOTE_DEPTH_MAX
    return {"prompt": prompt, "depth": depth if is_depth else 4, "role": _role(role)}


def _role(number: object) -> str:
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < len(_NOTE_ROLES):
        return "system"
    return _NOTE_ROLES[number]


def _left_out(chat: chat_log.ImportedChat) -> list[str]:
    """Return what a file says of its messages and a chat here does not follow, each once."""
    messages = [one for turn in chat.turns for one in turn.messages]
    empty = sum(one.role == "system" and not one.text.strip() for one in messages)
    reworded = sum(one.role == "user" and len(one.variants) > 1 for one in messages)
    found: list[str] = []
    if empty:
        found.append(f"left out: {empty} messages of the program without words")
    if reworded:
        found.append(f"kept, but not shown: other wordings of {reworded} messages of the person")
    if left := sorted({name for one in messages for name in _unfollowed(one)}):
        found.append(f"kept of messages, but not followed: {listed(left)}")
    return found


_FOLLOWED = frozenset(("reasoning", "type", "gen_id"))
"""Fields of `extra` that are taken over, or say nothing beside a message."""


def _unfollowed(message: chat_log.ChatLogMessage) -> Iterator[str]:
    """Give the fields of a message that a chat here has no place for."""
    for name, value in message.extensions.items():
        if value not in (None, "", [], {}, False):
            yield name
    for variant in message.variants:
        for name, value in variant.extensions.items():
            if name not in _FOLLOWED and value not in (None, "", [], {}, False):
                yield f"extra.{name}"


async def export_jsonl(session: ChatReader) -> bytes:
    """The conversation of a branch as JSONL, with all variants of each turn, as people see them."""
    return b"".join([lines async for lines in await exported_lines(session)])


async def exported_lines(session: ChatReader) -> AsyncGenerator[bytes]:
    """Return what `export_jsonl` returns, some lines at a time."""
    settings, row = await session.settings(), await session.row()
    user = str(settings.user.get("name") or "User")
    char = str(settings.char.get("name") or "Assistant")

    async def lines() -> AsyncGenerator[bytes]:
        is_begun = False
        async with aclosing(session.each_turn(with_kept=True)) as pages:
            async for page in pages:
                if not is_begun:
                    yield _head(settings, _kept_of_first(page[0]), opened_us=row.opened_us)
                    is_begun = True
                yield b"".join(chat_log.write_turn(_messages(turn, user=user, char=char)) for turn in page)
        if not is_begun:
            yield _head(settings, _NOTHING, opened_us=row.opened_us)

    return lines()


def _kept_of_first(turn: Turn) -> _Kept:
    """Return what is kept of the message that a file began with."""
    found = [_read_kept(text) for text in (turn.kept, *(one.kept for one in turn.variants))]
    return next((one for one in found if one.has_head is not None), _NOTHING)


def _head(settings: StoredChatSettings, first: _Kept, *, opened_us: int) -> bytes:
    """Return the line above the messages; none of a file that had none, if nothing is to be said there."""
    own = {"note": settings.note, "scenario": settings.scenario, "variables": settings.variables}
    if first.has_head is False and not any(own.values()):
        return b""
    given = first.head or {}
    metadata = as_dict(given.get("chat_metadata"))
    before = _head_settings(metadata, [])
    for name, value in own.items():
        # A chat that an earlier version took in has these in the head of its file alone.
        if value is not None and value != before.get(name, type(value)()):
            fields = _NOTE_FIELDS if name == "note" else (name,)
            metadata = {field: kept for field, kept in metadata.items() if field not in fields}
            if value:
                metadata |= _note_fields(settings.note) if name == "note" else {name: value}
    head = chat_log.ImportedChat(
        user=given.get("user_name") or str(settings.user.get("name") or "User"),
        char=given.get("character_name") or str(settings.char.get("name") or "Assistant"),
        turns=(),
        created_at=given.get("create_date") or _date(opened_us),
        extensions={**given, "chat_metadata": metadata},
    )
    line = msgspec.json.decode(chat_log.write_header(head))
    missing = [name for name in line if first.head is not None and name not in given]
    kept = [name for name in missing if name == "chat_metadata" and metadata]
    return msgspec.json.encode({n: v for n, v in line.items() if n not in missing or n in kept}) + b"\n"


def _note_fields(note: Mapping[str, Any]) -> dict[str, Any]:
    """Return the author's note as the head of a file has it."""
    if not note:
        return {}
    place = {"note_position": _IN_CHAT, "note_interval": 1}
    role = _NOTE_ROLES.index(note["role"])
    return {"note_prompt": note["prompt"], "note_depth": note["depth"], "note_role": role, **place}


def _messages(turn: Turn, *, user: str, char: str) -> chat_log.ChatLogTurn:
    messages: list[chat_log.ChatLogMessage] = []
    if turn.user or turn.persona:
        said = chat_log.ChatLogVariant(text=turn.user)
        kept = _read_kept(turn.kept)
        message = chat_log.ChatLogMessage(
            role="user",
            name=turn.persona or user,
            variants=(_as_kept(said, kept, turn.at_us),),
            hidden=turn.is_hidden,
        )
        messages.append(_lined(message, kept.line))
    if turn.variants:
        numbers = [one.number for one in turn.variants]
        selected = numbers.index(turn.selected) if turn.selected in numbers else 0
        found = [_read_kept(one.kept) for one in turn.variants]
        wordings = [
            _as_kept(chat_log.ChatLogVariant(text=one.text, extensions=_extra(one)), kept, one.at_us)
            for one, kept in zip(turn.variants, found, strict=True)
        ]
        message = chat_log.ChatLogMessage(
            role="assistant",
            name=turn.speaker or char,
            variants=tuple(wordings),
            selected=selected,
            hidden=any(one.is_hidden for one in turn.variants if one.number == turn.selected),
        )
        is_theirs = found[selected].line is not None
        line = next((one.line for one in found if one.line is not None), None)
        messages.append(_lined(message, line, is_theirs=is_theirs))
    return chat_log.ChatLogTurn(messages=tuple(messages))


def _as_kept(one: chat_log.ChatLogVariant, kept: _Kept, at_us: int) -> chat_log.ChatLogVariant:
    """Return a wording with what is kept beside it."""
    is_same = kept.sent is not None and chat_log.sent_us(kept.sent) in (0, at_us)
    return chat_log.ChatLogVariant(
        text=one.text,
        sent_at=kept.sent if is_same and kept.sent is not None else _date(at_us),
        extensions=one.extensions if kept.extra is None else kept.extra,
        form=kept.form,
    )


_OF_WORDINGS = ("swipes", "swipe_id", "swipe_info")


def _lined(
    message: chat_log.ChatLogMessage, line: _KeptLine | None, *, is_theirs: bool = True
) -> chat_log.ChatLogMessage:
    """Return a message as its line in the file says it. `is_theirs`: the wording that it shows stands."""
    if line is None:
        return message
    form = dict(line.form)
    if line.wordings:
        shown, others = message.variants[0], list(line.wordings)
        others[line.selected] = msgspec.structs.replace(shown, form=others[line.selected].form)
        message = msgspec.structs.replace(message, variants=tuple(others), selected=line.selected)
    if not is_theirs or len(message.variants) != line.count:
        form = {name: given for name, given in form.items() if name not in _OF_WORDINGS}
    if "is_system" in form and any(map(bool, form["is_system"])) is not message.hidden:
        del form["is_system"]
    role = "system" if line.is_system else message.role
    return msgspec.structs.replace(message, role=role, extensions=line.extensions, form=form)


def _extra(variant: Variant) -> dict[str, Any]:
    """Return what the file says beside a reply: the model's thoughts."""
    thoughts = [part["text"] for part in variant.parts if part["channel"] == "reasoning"]
    return {"reasoning": "\n\n".join(thoughts)} if thoughts else {}


def _date(at_us: int) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at_us)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


# Turns of a conversation from elsewhere, as data: checked, and cut into pieces of bounded size


TURNS_MAX = 100_000
PAGE_NODES_MAX = 1_000
"""Turns and variants of one event; fewer than a chat's stream has numbers for."""
PAGE_CHARS_MAX = 8_000_000


class ForeignTurn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A person's message and the replies to it."""

    user: str | None = None
    """None if the character began."""
    variants: tuple[str, ...] = ()
    selected: int = 0
    hidden: tuple[Literal["user", "assistant"], ...] = ()
    """The roles whose message is left out of prompts."""
    persona: str = ""
    """The name of the person."""
    speaker: str = ""
    """The name of whoever replies."""
    reasoning: tuple[str, ...] = ()
    """The reasoning of the model before each variant; empty for none."""
    sent_us: tuple[int, ...] = ()
    """The times at which the words, then each variant, were sent: microseconds since 1970, 0 if unknown."""
    kept: tuple[str, ...] = ()
    """The rest of what a file says of the words, then of each variant, as JSON; else empty."""

    def check(self) -> None:
        """Errors: `InvalidRequest`."""
        if len(self.variants) > VARIANTS_MAX:
            raise InvalidRequest(
                "variants of one turn", expected=f"at most {VARIANTS_MAX}", got=len(self.variants)
            )
        if self.variants and not 0 <= self.selected < len(self.variants):
            raise InvalidRequest("selected", expected=f"0 to {len(self.variants) - 1}", got=self.selected)
        if len(self.reasoning) > len(self.variants) or max(len(self.sent_us), len(self.kept)) > self.nodes:
            raise InvalidRequest("reasoning and times of a turn", expected="one for each variant", got="more")
        if not all(0 <= at_us < chat_log.SENT_US_MAX for at_us in self.sent_us):
            raise InvalidRequest("sent_us", expected="microseconds since 1970, before the year 10000")
        if self.user is None and not self.variants:
            raise InvalidRequest("a turn needs words or replies", got="neither")
        texts = (self.user or "", *self.variants, *self.reasoning, *self.kept)
        for text in (*texts, self.persona, self.speaker):
            checked_text(text, what="text of a turn")

    def __getitem__(self, name: str) -> object:
        """Return a field by name, as when files gave dicts. Deprecated."""
        if name not in self.__struct_fields__:
            raise KeyError(name)
        warnings.warn(f'turn["{name}"] of a file is now turn.{name}', DeprecationWarning, stacklevel=2)
        return getattr(self, name)

    @property
    def nodes(self) -> int:
        return 1 + len(self.variants)

    @property
    def chars(self) -> int:
        return len(self.user or "") + sum(map(len, (*self.variants, *self.reasoning, *self.kept)))


def batches(turns: object) -> Iterator[Sequence[ForeignTurn]]:
    """Pages of turns, each for one event; nothing is given before all of them were checked.

    Errors: `InvalidRequest`.
    """
    if isinstance(turns, list | tuple) and len(turns) > TURNS_MAX:  # pyright: ignore[reportUnknownArgumentType] - any list
        raise InvalidRequest("turns of one import", expected=f"at most {TURNS_MAX}")
    try:
        checked = msgspec.convert(turns, tuple[ForeignTurn, ...], from_attributes=True)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InvalidRequest(
            f"turns of a conversation: {error}",
            expected="a list of {user: text or null, variants: [text], selected: index, hidden: [role],"
            " persona: name, speaker: name, reasoning: [text], sent_us: [time], kept: [text]}",
        ) from None
    for turn in checked:
        turn.check()
    return _pages(checked)


def _pages(turns: Sequence[ForeignTurn]) -> Iterator[Sequence[ForeignTurn]]:
    page: list[ForeignTurn] = []
    nodes = chars = 0
    for turn in turns:
        if page and (nodes + turn.nodes > PAGE_NODES_MAX or chars + turn.chars > PAGE_CHARS_MAX):
            yield page
            page, nodes, chars = [], 0, 0
        page.append(turn)
        nodes, chars = nodes + turn.nodes, chars + turn.chars
    if page:
        yield page
