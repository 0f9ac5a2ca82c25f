"""Chats of other programs as JSONL: a line about the chat, then a line per message. As data.

Format: the chat files of SillyTavern, with `name`, `is_user`, `is_system`, `mes`, `swipes`, `swipe_id`,
`send_date` and `extra`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any, Literal, TypeAlias, cast

import msgspec

from artelier.artifacts.json_items import count_items
from artelier.artifacts.ref import safe_repr
from artelier.errors import InvalidImport
from artelier.operations.lore.schemas import NAME_CHARS_MAX, TEXT_CHARS_MAX
from artelier.operations.lore.untrusted_files import (
    FileProblems,
    ForeignFields,
    Source,
    as_dict,
    as_list,
    one_line,
    read_json,
    source_bytes,
)

FILE_BYTES_MAX = 32 * 1024 * 1024
LINE_BYTES_MAX = 4 * 1024 * 1024
MESSAGES_MAX = 50_000
VARIANTS_MAX = 500
FILE_VARIANTS_MAX = 100_000
"""Of all messages together: two for each, if there are as many as a chat may have."""
ITEMS_MAX = 1_500_000
"""Of all lines together: 50,000 messages of 20 fields, and the commas in their texts (a guess)."""
LINE_ITEMS_MAX = 100_000
"""Of one line: what it is made into is gone with the next (measured: 30 MB of memory)."""
EXTRA_BYTES_MAX = 64 * 1024
"""Of what is kept beside one text; pictures in it are left out."""
EXTRA_ITEMS_MAX = 1_000
"""Of what is kept beside one text."""
FILE_EXTRA_ITEMS_MAX = 100_000
"""Of what is kept beside all texts, twelve fields of 8,000 wordings (measured: up to 30 MB of memory). A
chat made of the file uses none of it but thoughts."""

_SYSTEM_TYPES = ("narrator", "comment", "system")
_PROGRAMS = ("System", "SillyTavern System", "")
UNUSED = "unused"
"""What newer files say instead of the two names."""


Form: TypeAlias = dict[str, list[Any]]
"""What a line of a file says otherwise than `write_turn` would: by field the value, none for no such field.

It holds no words: of the lists `swipes` and `swipe_info` only how many there are."""


class ChatLogVariant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One wording of a message."""

    text: str
    sent_at: str = ""
    """As the file says; programs do not agree on a form."""
    extensions: dict[str, Any] = {}
    """`extra` of the file."""
    form: Form = {}
    """The form of its entry in `swipe_info`."""

    @property
    def reasoning(self) -> str:
        """The model's thoughts before it wrote the text."""
        value = self.extensions.get("reasoning")
        return value if isinstance(value, str) else ""


class ChatLogMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message with all its wordings."""

    role: Literal["user", "assistant", "system"]
    name: str
    variants: tuple[ChatLogVariant, ...]
    """At least one."""
    selected: int = 0
    hidden: bool = False
    """Stands in the chat, but in no prompt."""
    extensions: dict[str, Any] = {}
    """Fields of its line that have no meaning here."""
    form: Form = {}
    """The form of its line."""

    @property
    def text(self) -> str:
        """The wording that is selected."""
        return self.variants[self.selected].text


class ChatLogTurn(msgspec.Struct, frozen=True, kw_only=True):
    """At most one message of the user and one reply, with system messages around them, in order."""

    messages: tuple[ChatLogMessage, ...]

    @property
    def user(self) -> str | None:
        """The user's text; None in a turn that the character began."""
        return next((said.text for said in self.messages if said.role == "user"), None)

    @property
    def reply(self) -> ChatLogMessage | None:
        return next((said for said in self.messages if said.role == "assistant"), None)

    @property
    def variants(self) -> tuple[str, ...]:
        """The wordings of the reply; none if nobody replied."""
        reply = self.reply
        return tuple(variant.text for variant in reply.variants) if reply else ()

    @property
    def selected(self) -> int:
        """The index of the selected variant in `variants`."""
        reply = self.reply
        return reply.selected if reply else 0

    @property
    def system(self) -> tuple[ChatLogMessage, ...]:
        return tuple(said for said in self.messages if said.role == "system")


class ImportedChat(msgspec.Struct, frozen=True, kw_only=True):
    """A chat as it stood in a file."""

    user: str
    char: str
    turns: tuple[ChatLogTurn, ...]
    created_at: str = ""
    extensions: dict[str, Any] = {}
    """What the first line says beside, `chat_metadata` above all."""
    head: dict[str, Any] | None = None
    """The first line as it stands in the file; None if that is a message already."""
    warnings: tuple[str, ...] = ()


class _ChatProblems(FileProblems):
    """The problems of a chat's file, and how much more it may hold."""

    def __init__(self) -> None:
        super().__init__()
        self._items_left = ITEMS_MAX
        self._variants_left = FILE_VARIANTS_MAX
        self._extra_items_left = FILE_EXTRA_ITEMS_MAX

    def take_items(self, count: int) -> None:
        """Errors: `InvalidImport` if the lines together have too many."""
        self._items_left -= count
        if self._items_left < 0:
            raise InvalidImport(
                "the chat has too many items", expected=f"at most {ITEMS_MAX:,} elements and fields"
            )

    def take_variants(self, count: int) -> None:
        """Errors: `InvalidImport` if the messages together have too many."""
        self._variants_left -= count
        if self._variants_left < 0:
            raise InvalidImport("the chat is too long", expected=f"at most {FILE_VARIANTS_MAX:,} wordings")

    def takes_extra_items(self, count: int) -> bool:
        """Return False, with a warning, if the texts together have too many beside them."""
        self._extra_items_left -= count
        if self._extra_items_left < 0:
            self.warn(
                f"of the fields beside the texts {FILE_EXTRA_ITEMS_MAX:,} are kept, and what a model thought"
            )
        return self._extra_items_left >= 0


def read_chat(source: Source) -> ImportedChat:
    """A chat from a JSONL file, or from its bytes. The first line may already be a message.

    A line that cannot be read is left out, and a warning names it.
    Errors: `InvalidImport` if no line can be read, or for more than a chat may hold; `NotFound`.
    """
    data = source_bytes(source, limit_bytes=FILE_BYTES_MAX).removeprefix(b"\xef\xbb\xbf")
    notes = _ChatProblems()
    header: dict[str, Any] = {}
    messages: list[ChatLogMessage] = []
    dates: list[tuple[int, str]] = []
    for number, line in enumerate(BytesIO(data), start=1):  # a list of lines can be very long
        if not line.strip():
            continue
        value = _object(line, number, notes)
        if value is None:
            continue
        if not messages and not header and "mes" not in value and "swipes" not in value:
            header = value
        elif len(messages) == MESSAGES_MAX:
            raise InvalidImport("the chat is too long", expected=f"at most {MESSAGES_MAX:,} messages")
        else:
            message = _read_message(value, number, notes)
            if message is not None:
                messages.append(message)
                dates.append((number, message.variants[message.selected].sent_at))
    if header and not messages and "chat_metadata" not in header and "user_name" not in header:
        notes.problem("line 1: expected a message or the head of a chat")
    notes.check("the chat")
    if not messages and (notes.warnings or not header):
        raise InvalidImport(
            "this is no chat",
            expected="a JSON object on each line",
            got="; ".join(notes.warnings)[:500] or "none",
        )
    _check_dates(dates, notes)
    return _chat(header, messages, notes)


SENT_US_MAX = 253_402_300_800_000_000
"""The year 10000, in microseconds since 1970."""


def _check_dates(dates: list[tuple[int, str]], notes: FileProblems) -> None:
    """Note of which messages a file that has dates gives none that can be read."""
    if not any(text for _, text in dates):
        return
    unread = [str(line) for line, text in dates if text and not sent_us(text)]
    without = [str(line) for line, text in dates if not text]
    if unread:
        notes.warn(f"dates that cannot be read: line {', '.join(unread[:40])}; they have the time of now")
    if without:
        notes.warn(f"no date: line {', '.join(without[:40])}; they have the time of now")
    if any(text and sent_us(text) and not has_zone(text) for _, text in dates):
        notes.warn("dates without a zone are taken as UTC")


_ISO = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:\d{2})?")
_MONTH = re.compile(r"([A-Z][a-z]{2,8}) (\d{1,2}), (\d{4}) (\d{1,2}):(\d{2})\s?([ap]m)", re.IGNORECASE)
_AT = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})\s?@\s?(\d{1,2})h\s?(\d{1,2})m\s?(\d{1,2})s(?:\s?(\d{1,3})ms)?")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MILLISECONDS = re.compile(r"\d{11,15}(\.0)?")


def has_zone(text: str) -> bool:
    """Return True if a date says its zone, or counts from 1970."""
    return bool(_MILLISECONDS.fullmatch(text)) or (
        bool(_ISO.fullmatch(text)) and (text[-1] == "Z" or text[-6] in "+-")
    )


def sent_us(text: str) -> int:
    """Return when a message was sent, in microseconds since 1970; 0 for a date that cannot be read.

    Read are the forms that SillyTavern has written: ISO, `June 19, 2023 2:20pm`, `2024-7-12@01h31m37s`, and
    milliseconds. Without a zone it is UTC.
    """
    given = text.strip()
    try:
        if _MILLISECONDS.fullmatch(given):
            at_us = int(given.partition(".")[0]) * 1_000
        else:
            at_us = round((_moment(given) - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1))
    except (ValueError, OverflowError):
        return 0
    return at_us if 0 < at_us < SENT_US_MAX else 0


def _moment(text: str) -> datetime:
    """Errors: `ValueError`, `OverflowError`."""
    if _ISO.fullmatch(text):
        found = datetime.fromisoformat(text)
        return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    if at := _AT.fullmatch(text):
        year, month, day, hour, minute, second, ms = (int(one or 0) for one in at.groups())
        return datetime(year, month, day, hour, minute, second, ms * 1_000, tzinfo=UTC)
    if named := _MONTH.fullmatch(text):
        month = _MONTHS.index(named[1][:3].lower()) + 1
        hour = int(named[4]) % 12 + (12 if named[6].lower() == "pm" else 0)
        return datetime(int(named[3]), month, int(named[2]), hour, int(named[5]), tzinfo=UTC)
    raise ValueError("no date")


def _object(line: bytes, number: int, notes: _ChatProblems) -> dict[str, Any] | None:
    if len(line) > LINE_BYTES_MAX:
        notes.warn(f"line {number}: left out: {len(line):,} bytes, expected at most {LINE_BYTES_MAX:,}")
        return None
    notes.take_items(count_items(line))
    try:
        value = read_json(line, what=f"line {number}", items_max=LINE_ITEMS_MAX)
    except InvalidImport as error:
        notes.warn(f"left out: {error}")
        return None
    if not isinstance(value, dict):
        notes.warn(f"line {number}: left out: expected an object, got {safe_repr(value)}")
        return None
    return cast("dict[str, Any]", value)


_HEAD = ("user_name", "character_name", "create_date")


def _chat(header: dict[str, Any], messages: list[ChatLogMessage], notes: FileProblems) -> ImportedChat:
    head = ForeignFields(header, path="line 1: ", notes=notes)

    def name_of(field: str, role: str, fallback: str) -> str:
        name = head.line(field, chars_max=NAME_CHARS_MAX)
        if name and name != UNUSED:
            return name
        return next((said.name for said in messages if said.role == role), "") or fallback

    user = name_of("user_name", "user", "User")
    char = name_of("character_name", "assistant", "Character")
    created_at = head.line("create_date", chars_max=NAME_CHARS_MAX)
    notes.check("the chat")
    extensions = _limit_extensions(head.rest(), "line 1: ", notes)
    named = {name: header[name] for name in _HEAD if name in header}
    return ImportedChat(
        user=user,
        char=char,
        turns=_turns(messages),
        created_at=created_at,
        extensions=extensions,
        head=named | extensions if header else None,
        warnings=notes.warnings,
    )


def _read_message(value: dict[str, Any], number: int, notes: _ChatProblems) -> ChatLogMessage | None:
    """Return the message of a line; None for one that is left out, which `notes` say."""
    own = FileProblems()
    message = _message(ForeignFields(value, path=f"line {number}: ", notes=own), notes)
    for warning in own.warnings:
        notes.warn(warning)
    if own.problems:
        notes.warn(f"left out: {'; '.join(own.problems)}")
        return None
    return message


def _message(fields: ForeignFields, notes: _ChatProblems) -> ChatLogMessage | None:
    path, line = fields.path, fields.rest()
    if "mes" not in fields and "swipes" not in fields:
        notes.warn(f"{path}left out: expected `mes`")
        return None
    is_user, is_hidden = fields.flag("is_user", False), fields.flag("is_system", False)
    extra = fields.mapping("extra")
    role = fields.raw("role")
    name = fields.line("name", chars_max=NAME_CHARS_MAX)
    # A hidden message of a person is still theirs; of one that a program wrote, the type or the name says so.
    is_program = is_hidden and bool(extra.get("type") or name in _PROGRAMS)
    is_system = role == "system" or extra.get("type") in _SYSTEM_TYPES or is_program
    said = _variants(fields, extra, notes)
    if said is None:
        return None
    variants, selected = said
    rest = fields.rest()
    if role not in (None, "system"):
        rest["role"] = role
    if is_system and is_user:
        rest["is_user"] = True
    message = ChatLogMessage(
        role="system" if is_system else "user" if is_user else "assistant",
        name=name,
        variants=variants,
        selected=selected,
        hidden=is_hidden,
        extensions=_limit_extra(rest, path, notes),
    )
    return _with_form(message, line, notes, path)


_WRITTEN = ("name", "is_user", "is_system", "send_date", "mes", "swipe_id", "role")
"""Fields of a line that `_line` writes, and whose values are small."""


def _with_form(
    message: ChatLogMessage, line: dict[str, Any], notes: _ChatProblems, path: str
) -> ChatLogMessage:
    """Return a message with the form of its line, so that `_line` writes an equal one."""
    ours = _line(message)
    form = _form_of(line, ours, _WRITTEN)
    if not isinstance(line.get("extra"), dict):
        form |= {"extra": [line["extra"]] if "extra" in line else []}
    for name in ("swipes", "swipe_info"):
        given = line.get(name)
        if not isinstance(given, list):
            form |= {name: [0, given]} if name in line else _form_of(line, ours, (name,))
        elif len(cast("list[object]", given)) != len(ours.get(name, ())) or name not in ours:
            form[name] = [len(cast("list[object]", given))]
    infos = [as_dict(info) for info in as_list(line.get("swipe_info"))[: len(message.variants)]]
    variants = list(message.variants)
    for number, info in enumerate(infos):
        own = _info(variants[number])
        of_info = _limit_extra(_form_of(info, own, {**info, **own}), path, notes)
        variants[number] = msgspec.structs.replace(variants[number], form=of_info)
    form = _limit_extra(form, path, notes)
    return msgspec.structs.replace(message, variants=tuple(variants), form=form)


def _form_of(given: dict[str, Any], ours: dict[str, Any], names: Iterable[str]) -> Form:
    form: Form = {}
    for name in names:
        if name not in given:
            form |= {name: []} if name in ours else {}
        elif name not in ours or (type(given[name]), given[name]) != (type(ours[name]), ours[name]):
            form[name] = [given[name]]
    return form


def _variants(
    fields: ForeignFields, extra: dict[str, Any], notes: _ChatProblems
) -> tuple[tuple[ChatLogVariant, ...], int] | None:
    """The wordings, and which one stands in the chat: that is `mes`, whatever the number says. None if they
    are no text."""
    path = fields.path
    stands, swipes, swipe_id = (fields.raw(name) for name in ("mes", "swipes", "swipe_id"))
    infos, date = fields.raw("swipe_info"), fields.raw("send_date")
    texts = ["" if text is None else text for text in as_list(swipes)]
    if not isinstance(stands, str | None) or not all(isinstance(text, str) for text in texts):
        notes.warn(f"{path}left out: mes, swipes: expected text")
        return None
    is_number = isinstance(swipe_id, int) and 0 <= swipe_id < len(texts)
    selected = swipe_id if is_number else 0
    if stands is not None and (not texts or texts[selected] != stands):
        if texts and stands not in texts:
            notes.warn(f"{path}mes: none of the swipes; it became one more")
        if stands not in texts:
            texts.append(stands)
        selected = texts.index(stands)
    if len(texts) > VARIANTS_MAX or any(len(text) > TEXT_CHARS_MAX for text in texts):
        notes.problem(
            f"{path}expected at most {VARIANTS_MAX} swipes of at most {TEXT_CHARS_MAX:,} characters"
        )
        return (ChatLogVariant(text=""),), 0
    notes.take_variants(max(len(texts), 1))
    said = [as_dict(info) for info in as_list(infos)[: len(texts)]]
    said += [{}] * (len(texts) - len(said))
    if texts:
        said[selected] = {"send_date": date, "extra": extra}
    variants = tuple(
        ChatLogVariant(
            text=text,
            sent_at=_date(info.get("send_date")),
            extensions=_limit_extra(as_dict(info.get("extra")), path, notes),
        )
        for text, info in zip(texts, said, strict=True)
    )
    return variants or (ChatLogVariant(text="", sent_at=_date(date)),), selected


def _date(value: object) -> str:
    return one_line(str(value))[:NAME_CHARS_MAX] if isinstance(value, str | int | float) else ""


_USED = "reasoning"
"""The field that is kept of each wording that has it."""


def _limit_extra(extra: dict[str, Any], path: str, notes: _ChatProblems) -> dict[str, Any]:
    """Return what is kept beside a text of a message: of all texts together it is not much either."""
    if not extra:
        return extra
    kept = _limit_extensions(extra, path, notes, items_max=EXTRA_ITEMS_MAX)
    if notes.takes_extra_items(_items_of(kept)):
        return kept
    return {_USED: kept[_USED]} if isinstance(kept.get(_USED), str) else {}


def _limit_extensions(
    extensions: dict[str, Any], path: str, notes: FileProblems, *, items_max: int = LINE_ITEMS_MAX
) -> dict[str, Any]:
    """Return what is kept beside a text; the largest fields are left out until it is small."""
    if _items_of(extensions) <= items_max and len(msgspec.json.encode(extensions)) <= EXTRA_BYTES_MAX:
        return extensions
    sizes = {name: len(msgspec.json.encode(value)) for name, value in extensions.items()}
    items = {name: _items_of({name: value}) for name, value in extensions.items()}
    kept, left_bytes, left_items = dict(extensions), sum(sizes.values()), sum(items.values())
    for name in sorted(sizes, key=lambda name: (items[name] > items_max, sizes[name]), reverse=True):
        if left_bytes <= EXTRA_BYTES_MAX and left_items <= items_max:
            break
        del kept[name]
        left_bytes, left_items = left_bytes - sizes[name], left_items - items[name]
        size = f"{items[name]:,} items" if items[name] > items_max else f"{sizes[name]:,} bytes"
        notes.warn(f"{path}{name[:60]}: {size}, left out")
    return kept


def _items_of(fields: dict[str, Any]) -> int:
    """Return how many items some fields make; the commas of their texts are none."""
    nested: list[object] = [value for value in fields.values() if isinstance(value, dict | list)]
    return len(fields) + (count_items(msgspec.json.encode(nested)) if nested else 0)


def _turns(messages: list[ChatLogMessage]) -> tuple[ChatLogTurn, ...]:
    """A turn begins with the user's message, or with a reply where there is one already."""
    turns: list[list[ChatLogMessage]] = []
    for message in messages:
        standing = {said.role for said in turns[-1]} if turns else set[str]()
        begins = (message.role == "user" and not standing.isdisjoint(("user", "assistant"))) or (
            message.role == "assistant" and "assistant" in standing
        )
        if begins or not turns:
            turns.append([])
        turns[-1].append(message)
    return tuple(ChatLogTurn(messages=tuple(turn)) for turn in turns)


def write_chat(chat: ImportedChat) -> bytes:
    """The chat as JSONL; `read_chat` gives an equal one."""
    return write_header(chat) + b"".join(map(write_turn, chat.turns))


def write_header(chat: ImportedChat) -> bytes:
    """Return the line that stands above those of the turns."""
    header = {
        **chat.extensions,
        "user_name": chat.user,
        "character_name": chat.char,
        "create_date": chat.created_at,
        "chat_metadata": chat.extensions.get("chat_metadata", {}),
    }
    return msgspec.json.encode(header) + b"\n"


def write_turn(turn: ChatLogTurn) -> bytes:
    """Return the lines of one turn."""
    return b"".join(msgspec.json.encode(_line(message)) + b"\n" for message in turn.messages)


def _line(message: ChatLogMessage) -> dict[str, Any]:
    stands = message.variants[message.selected]
    line: dict[str, Any] = {
        "name": message.name,
        "is_user": message.role == "user" or message.extensions.get("is_user") is True,
        "is_system": message.hidden,
        "send_date": stands.sent_at,
        "mes": stands.text,
        "extra": stands.extensions,
    }
    if message.role == "system":
        line["role"] = "system"
    if len(message.variants) > 1:
        line |= {
            "swipe_id": message.selected,
            "swipes": [variant.text for variant in message.variants],
            "swipe_info": [_info(variant) for variant in message.variants],
        }
    line = {**line, **{name: value for name, value in message.extensions.items() if name not in line}}
    form = dict(message.form)
    for name in ("swipes", "swipe_info"):
        if (counted := form.pop(name, None)) is not None:
            form[name] = [_first(message, name, counted[0])] if len(counted) == 1 else counted[1:]
    return _formed(line, form)


def _info(variant: ChatLogVariant) -> dict[str, Any]:
    return _formed({"send_date": variant.sent_at, "extra": variant.extensions}, variant.form)


def _formed(fields: dict[str, Any], form: Form) -> dict[str, Any]:
    """Return fields as the file had them."""
    absent = [name for name, given in form.items() if not given]
    given = {name: given[0] for name, given in form.items() if given}
    return {name: value for name, value in (fields | given).items() if name not in absent}


def _first(message: ChatLogMessage, name: str, count: int) -> list[Any]:
    """Return so many wordings of a message as its line names, without one that is not among them."""
    listed = list(message.variants)
    if count == len(listed) - 1:
        del listed[message.selected]
    return [one.text if name == "swipes" else _info(one) for one in listed[:count]]
