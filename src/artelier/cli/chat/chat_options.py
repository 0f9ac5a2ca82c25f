"""The options of `artelier chat`: which chat they open, and with which profile, people and lorebooks."""

from __future__ import annotations

import io
import os
import re
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artelier.atomic_file import replace_file
from artelier.cli.call import CliCall
from artelier.cli.display import Screen, count
from artelier.errors import InvalidRequest, NotFound

if TYPE_CHECKING:
    from artelier.app import Kernel
    from artelier.chat import Session
    from artelier.chat.conversation_files import TakenChat
    from artelier.chat.session.settings import StoredChatSettings
    from artelier.kernel.tenants.registry import TenantScope

NONE = "none"
"""Takes a profile or the lorebooks away."""


FILES = (".json", ".png", ".lorebook")
"""How the files of characters and lorebooks end; anything else is a name or a ref."""


_SUFFIX = re.compile(r"\.(j[a-z]{1,4}|p[a-z]{1,3}|ya?ml|txt|md|webp|gif|card|charx)$", re.IGNORECASE)
"""Ends of names that are those of files, slips of the finger (`mira.jsn`) included; `J. R.` has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """The wishes of a person who opens a chat; None stays as it is."""

    chat: str
    model: str | None
    fallbacks: Sequence[str] | None
    """Models to ask when that one fails."""
    params: Mapping[str, Any]
    """Of the main calls; they stay with the chat."""
    profile: str | None
    branch: str
    session: str | None
    user: str | None
    chars: Sequence[str]
    """Names, or files of cards; several are a group."""
    speaks: str | None
    """The rule by which a group chooses who speaks next."""
    persona: str | None
    lorebooks: Sequence[str]
    system: str | None
    preset: str | None
    """A file with parameters and prompts."""
    file: str | None
    """A conversation to begin with."""
    subject: str


async def open_chat(call: CliCall, kernel: Kernel, wish: ChatOptions) -> tuple[Session, bool]:
    """Return the chat, and True if it is new. Errors: those of `Session.open`, and of the files."""
    from artelier.chat import Session
    from artelier.chat.conversation_files import parse_chat
    from artelier.chat.session.chat_reader import ChatReader

    desk = kernel.for_tenant(call.tenant)
    await desk.state()
    is_new = not await ChatReader(desk, wish.chat, branch=wish.branch).exists()
    imported = None if wish.file is None else parse_chat(wish.file)
    asked = await _people(call, desk, wish, imported if is_new else None, is_new=is_new)
    if wish.lorebooks:
        known = () if is_new else (await _settings_of(desk, wish)).lorebooks
        asked["lorebooks"] = await _books(call, desk, wish, known)
    if wish.profile is not None:
        asked["profile"] = await wished_profile(call, desk, wish.profile)
    asked |= await _preset(call, desk, wish, is_new=is_new)
    if wish.system is not None:
        asked["system"] = wish.system
    if wish.speaks is not None:
        asked["speaks"] = wish.speaks
    if is_new or wish.model is not None:
        asked["model"] = wish.model or call.settings.model
    if wish.fallbacks is not None:
        asked["fallbacks"] = wish.fallbacks
    asked |= wish.params
    if is_new and imported is not None:
        asked.pop("greetings", None)  # it has begun already
    session = await Session.open(
        desk,
        wish.chat,
        branch=wish.branch,
        session_id=wish.session,
        principal=call.person,
        subject=wish.subject,
        **asked,
    )
    if imported is not None and wish.file is not None:
        await add(session, file=wish.file, screen=call.screen)
    return session, is_new


async def _preset(call: CliCall, desk: TenantScope, wish: ChatOptions, *, is_new: bool) -> dict[str, Any]:
    """Return what a preset says to the chat; `--param` and `--system` stand over it."""
    if wish.preset is None:
        return {}
    from artelier.chat.foreign_files import read_preset_file

    model = wish.model or (call.settings.model if is_new else (await _settings_of(desk, wish)).model)
    name = Path(wish.preset).stem
    preset = await read_preset_file(desk, wish.preset, name=name, by=call.person, model=model)
    warn(call.screen, preset.warnings)
    return dict(preset.settings)


async def wished_profile(call: CliCall, desk: TenantScope, name: str) -> str | None:
    """The name of a profile as a chat takes it; None for `none`.

    Errors: `NotFound` that says how one comes here; those of reading one.
    """
    from artelier.operations.profile.store import SHIPPED, read_profile

    if name == NONE:
        return None
    try:
        await read_profile(desk, name, by=call.person)
    except (NotFound, InvalidRequest) as error:
        if name in SHIPPED:
            return name
        if os.sep in name or name.lower().endswith(".json"):
            way = call.command_line("profile", "import", name)
            error.hint = f"A file is imported first: {way}. Shipped are {', '.join(SHIPPED)}."
        elif isinstance(error, NotFound):
            error.hint = error.hint or f"Shipped are {', '.join(SHIPPED)}."
        raise
    return name


async def _people(
    call: CliCall, desk: TenantScope, wish: ChatOptions, imported: TakenChat | None, *, is_new: bool
) -> dict[str, Any]:
    """`user`, `char` and `greetings`, as far as they are wanted; else those of an imported chat."""
    from artelier.operations.lore.character_import import cast_character, cast_persona

    asked: dict[str, Any] = {}
    if imported is not None:
        asked = imported.settings
    if wish.persona is not None:
        persona = await cast_persona(desk, wish.persona, by=call.person)
        asked["user"] = persona if wish.user is None else {**persona, "name": wish.user}
    elif wish.user is not None:
        asked["user"] = wish.user
    user = ""
    if any(map(is_file, wish.chars)):  # what was erased of a chat does not keep it from being looked at
        named = asked.get("user") or (
            "User" if is_new else (await _settings_of(desk, wish)).user.get("name") or "User"
        )
        user = named if isinstance(named, str) else str(named["name"])
    chars: list[str | dict[str, Any]] = []
    for wished in wish.chars:
        _check_character(wished)
        if not is_file(wished):
            chars.append(wished)
            continue
        cast = await cast_character(desk, wished, by=call.person, user=user)
        warn(call.screen, cast.warnings)
        chars.append(dict(cast.char))
        if is_new and len(chars) == 1:  # the first begins
            asked["greetings"] = list(cast.greetings)
    if chars:
        asked["char"] = chars[0]
        asked["group"] = chars if len(chars) > 1 else None
    return asked


async def _settings_of(desk: TenantScope, wish: ChatOptions) -> StoredChatSettings:
    from artelier.chat.session.chat_reader import ChatReader

    return await ChatReader(desk, wish.chat, branch=wish.branch).settings()


async def _books(call: CliCall, desk: TenantScope, wish: ChatOptions, known: tuple[str, ...]) -> list[str]:
    """Refs of the chat's lorebooks with those that were named; another version takes the place of one."""
    from artelier.operations.lore.character_import import keep_lorebook

    books = {ref.partition("@")[0]: ref for ref in known}
    for named in wish.lorebooks:
        if named == NONE:
            books.clear()
            continue
        ref = named
        if is_file(named):
            ref, warnings = await keep_lorebook(desk, named, by=call.person)
            warn(call.screen, warnings)
        books[ref.partition("@")[0]] = ref
    return list(books.values())


def is_file(word: str) -> bool:
    """Return True if a file is meant; what reads like a path is one even if it is not there."""
    return word.lower().endswith(FILES) or os.path.isfile(word)


def _check_character(word: str) -> None:
    """Errors: `NotFound` for what reads like a path of a card, and is none: no character is called so."""
    if is_file(word) or not (os.sep in word or _SUFFIX.search(word)):
        return
    raise NotFound(
        "there is no such file", got=word[:200], expected="a name, or a card that ends in .png or .json"
    )


# Chats from and to files of other programs, at the command line.

WARNINGS_SHOWN = 20


def is_own_file(file: str) -> bool:
    """Return True for a chat that was exported here whole, which is a gzip file.

    Errors: `NotFound` for no such file.
    """
    if file.lower().endswith(".artelier"):
        return True
    try:
        with Path(file).open("rb") as stream:
            return stream.read(2) == b"\x1f\x8b"
    except OSError:
        raise NotFound("there is no such file", got=file[:200]) from None


async def add(session: Session, *, file: str, screen: Screen) -> None:
    """Add the turns of a file."""
    found = await session.import_file(file)
    warn(screen, found.warnings)
    who = f"{found.settings['user']} and {found.settings['char']}"
    screen.note(f"{file}: {count(len(found.turns), 'turn')} of {who}", "dim")


def warn(screen: Screen, warnings: tuple[str, ...]) -> None:
    """Print what was changed in or left out of a file."""
    for text in warnings[:WARNINGS_SHOWN]:
        screen.note(f"note: {text}", "yellow")
    if len(warnings) > WARNINGS_SHOWN:
        screen.note(f"note: and {len(warnings) - WARNINGS_SHOWN} more", "yellow")


async def write_turns(session: Session, file: str) -> int:
    """Write the branch as JSONL, whole or not at all; how many turns. Errors: `StoreUnavailable`."""
    from artelier.chat.conversation_files import export_jsonl

    content = await export_jsonl(session)
    write_file(file, content)
    turns = await session.turns(limit=1)
    return turns[-1].number if turns else 0


def write_file(name: str, content: bytes) -> None:
    """Write a file whole or not at all. Errors: `StoreUnavailable`."""
    with replace_file(Path(name), "the file cannot be written") as file:
        file.write(content)


# The table of slash commands: names, usage, and the functions that register themselves.

_TEXTS = ("TEXT", "WORDS", "VALUE")
"""Names of what a person writes: apostrophes and quotes in it are their own."""

Body = Callable[..., Awaitable[int | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slash:
    """One slash command."""

    name: str
    usage: str
    """Its words: those in brackets may be left out; after `...`, any number."""
    help: str
    run: Body
    """Called with the `Talk` and the words that were given, all texts."""

    def split(self, line: str) -> list[str]:
        """Return the words of a line. Text at the end (`WORDS ...`) is one of them, as it was typed.

        Errors: `InvalidRequest` for quotes that do not match.
        """
        *fixed, last = self.usage.split() or [""]
        is_text = last.rstrip("]") == "..." and fixed[-1].lstrip("[") in _TEXTS
        typed = io.StringIO(line)
        reader = shlex.shlex(typed, posix=True)
        reader.whitespace_split, reader.commenters = True, ""
        words: list[str] = []
        try:
            while not (is_text and len(words) == len(fixed) - 1):
                word = reader.get_token()
                if word is None:
                    return words
                words.append(word)
        except ValueError:
            raise InvalidRequest(
                "this is no command",
                expected="words, in matching quotes if they have spaces",
                got=line[:100],
                hint="/help lists the commands; // begins a message with a slash.",
            ) from None
        text = typed.read().strip()
        return [*words, text] if text else words

    def check(self, words: list[str]) -> None:
        """Errors: `InvalidRequest` for too few words, or too many."""
        wanted = self.usage.split()
        is_open = self.usage.rstrip("]").endswith("...")
        wanted = [word for word in wanted if word.strip("[]") != "..."]
        least = sum(not word.startswith("[") for word in wanted)
        if len(words) < least or (len(words) > len(wanted) and not is_open):
            raise InvalidRequest(
                f"usage: {f'/{self.name} {self.usage}'.strip()}", got=" ".join(words)[:200] or "nothing"
            )


COMMANDS: dict[str, Slash] = {}
"""By name, in the order of `/help`."""


def slash(name: str, usage: str = "", *, help: str) -> Callable[[Body], Body]:
    """Register a function as the slash command of that name."""

    def register(body: Body) -> Body:
        COMMANDS[name] = Slash(name=name, usage=usage, help=help, run=body)
        return body

    return register


def number(word: str, what: str) -> int:
    """A number that was typed. Errors: `InvalidRequest`."""
    if not word.isascii() or not word.isdigit() or len(word) > 9:
        raise InvalidRequest(f"{what} is a number from 0", got=word[:60])
    return int(word)
