"""Traces of what is deleted: under which keys its words, records and values are stored, and what stays.

Keys are found by the content that events refer to, so that it is the same for a chat that came in a file.
What was said before messages had keys of their own is under the key of the chat, and stays with it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from artelier.chat.queries.chats import ChatRow
from artelier.chat.queries.tree import Doomed, standing_versions
from artelier.chat.rows import NODES_PER_EVENT, draft_range, run_name
from artelier.chat.turn.turn_config import TurnJob
from artelier.errors import Erased
from artelier.kernel.queries.content import blob_json
from artelier.kernel.queries.runs import ids_between, runs_by_id
from artelier.kernel.run.services import Services
from artelier.log import blob_name
from artelier.log.blobs import blob_refs
from artelier.log.contract import Row
from artelier.log.queries import EventRow, are_parts, contents_under, part_keys_of, survey_events
from artelier.operations import events as ev
from artelier.threads import read_beside_loop

KINDS = (ev.TurnAsked, ev.VariantBegun, ev.VariantEnded, ev.TurnsImported, ev.ChatOpened, ev.MessageRevised)
PHRASE_WORDS = 8
"""So many words in a row of a longer message are a quotation of it (guess)."""
TELLING_CHARS = 6
"""A message of one or two words is looked for if one is so long; `ok` is in every record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """The traces of a deletion."""

    keys: tuple[int, ...]
    """Rows of `keys` that go with it."""
    turns: int
    derived_runs: tuple[str, ...] = ()
    erased_runs: tuple[str, ...] = ()
    derived_artifacts: tuple[str, ...] = ()
    is_whole: bool
    """True if all of its words are under these keys."""


@dataclass(slots=True)
class _Said:
    """The events of a chat, by run and by node."""

    asked: dict[str, ev.TurnAsked] = field(default_factory=dict[str, ev.TurnAsked])
    written: dict[str, list[ev.VariantBegun | ev.VariantEnded]] = field(
        default_factory=dict[str, list[ev.VariantBegun | ev.VariantEnded]]
    )
    texts: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    """Words of greetings, of turns from elsewhere and of revisions, by node."""
    names: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    """Names that came with those."""


async def traces_of(services: Services, chat: ChatRow, doomed: Doomed | None) -> Traces:
    """Return the traces of some nodes, or of the whole chat.

    Cost: one scan of the chat's events; the records of the runs after them are read.
    """
    if doomed is None:
        return await _traces_of_all(services, chat)
    said = await _read(services, chat)
    makers = {node.run for node in doomed.nodes if node.run and (node.variant or doomed.is_turns)}
    longer, shown, attempts = await _unmade(services, chat, said, doomed, makers)
    makers |= longer
    words, more = _words_of(said, doomed, makers)
    texts = await _texts(services, chat, words)
    keys = await part_keys_of(services.store, chat.tenant, [blob_name(ref) for ref in (*words, *more)])
    drafts = await ids_between(services.store, chat.tenant, *draft_range(chat.chat))
    later = [*doomed.runs_below, *shown, *attempts, *drafts]
    records = await _record_keys(services, chat, [*makers, *later])
    phrases = {phrase for text in texts.values() for phrase in _phrases(text)}
    quoting = await _quoting(services, chat, {records[run]: run for run in later if run in records}, phrases)
    asks = await _asks_quoting(
        services, chat, [said.asked[run].settings for run in (*shown, *attempts)], phrases
    )
    standing = await standing_versions(services.store, chat.id, doomed)
    states = await part_keys_of(services.store, chat.tenant, [blob_name(ref) for ref in standing.left])
    erased = sorted(run for run in (*makers, *quoting) if run in records)
    return Traces(
        keys=tuple(sorted({*keys.values(), *(records[run] for run in erased), *asks, *states.values()})),
        turns=doomed.count,
        derived_runs=tuple(sorted({*makers, *doomed.runs_below, *shown, *erased})),
        erased_runs=tuple(erased),
        derived_artifacts=tuple(sorted({tag for run, tag in standing.tags if run in makers})),
        is_whole=texts.keys() <= keys.keys(),
    )


async def _unmade(
    services: Services, chat: ChatRow, said: _Said, doomed: Doomed, makers: Collection[str]
) -> tuple[set[str], list[str], list[str]]:
    """Return the runs that made a reply longer, here and below, and those that were asked for for nothing."""
    nodes = {node.node for node in doomed.nodes}
    around = {*nodes, *(node.parent for node in doomed.nodes), *doomed.below}
    longer: set[str] = set()
    shown: list[str] = []
    attempts: list[str] = []
    for run, asked in said.asked.items():
        if asked.trigger == "generate" or run in makers or run in doomed.runs_below:
            continue
        try:
            job = TurnJob.from_stored(await blob_json(services, chat.tenant, asked.settings))
        except Erased:
            continue
        if asked.trigger == "continue" and job.node in nodes:
            longer.add(run)
        elif asked.trigger == "continue" and job.node in doomed.below:
            shown.append(run)
        elif job.node in around:
            attempts.append(run)
    return longer, shown, attempts


async def _traces_of_all(services: Services, chat: ChatRow) -> Traces:
    rows = await survey_events(services.store, chat.id)
    refs, turns = await read_beside_loop(_size_of(rows), _refs_and_turns, rows)
    runs = [run_name(chat.chat, number) for number in range(1, chat.runs + 1)]
    runs += await ids_between(services.store, chat.tenant, *draft_range(chat.chat))
    records = await _record_keys(services, chat, runs)
    keys = await part_keys_of(services.store, chat.tenant, sorted(refs))
    return Traces(
        keys=tuple(sorted({*keys.values(), *records.values()})),
        turns=turns,
        derived_runs=tuple(runs),
        erased_runs=tuple(sorted(records)),
        is_whole=await are_parts(services.store, chat.tenant, [*refs, *(await _begun(services, chat, runs))]),
    )


def _size_of(rows: Iterable[Row]) -> int:
    return sum(len(row[-1]) for row in rows)


def _refs_and_turns(rows: Iterable[Row]) -> tuple[set[bytes], int]:
    """Return the names of all contents that events refer to, and how many turns were asked for."""
    found = [EventRow(*row) for row in rows]
    refs = {name for row in found for name in blob_refs(row.data)}
    return refs, sum(row.kind == ev.TurnAsked.KIND for row in found)


async def _read(services: Services, chat: ChatRow) -> _Said:
    rows = await survey_events(services.store, chat.id, *(kind.KIND for kind in KINDS))
    return await read_beside_loop(_size_of(rows), _read_events, rows)


def _read_events(rows: Iterable[Row]) -> _Said:
    said = _Said()
    for row in map(EventRow._make, rows):
        data = row.decode()
        if isinstance(data, ev.TurnAsked):
            said.asked[data.run] = data
        elif isinstance(data, ev.VariantBegun | ev.VariantEnded):
            said.written.setdefault(data.run, []).append(data)
        elif isinstance(data, ev.MessageRevised):
            said.texts.setdefault(data.node, []).append(data.text)
        elif isinstance(data, ev.ChatOpened):
            for index, text in enumerate(data.greetings):
                said.texts.setdefault(row.seq * NODES_PER_EVENT + index, []).append(text)
        elif isinstance(data, ev.TurnsImported):
            node = row.seq * NODES_PER_EVENT
            for turn in data.turns:
                for text, *beside in _imported(turn):
                    said.texts.setdefault(node, []).append(text)
                    said.names.setdefault(node, []).extend(one for one in beside if one)
                    node += 1
    return said


def _imported(turn: ev.ImportedTurn) -> Iterator[tuple[str, str | None, str | None]]:
    """Texts of a turn from elsewhere, in the order of its nodes, each with what else goes with it."""
    if turn.user is not None:
        yield turn.user, turn.persona, next(iter(turn.kept), None)
    count = len(turn.variants)
    yield from zip_longest(turn.variants, turn.reasoning[:count], turn.kept[1 : count + 1])


def _words_of(said: _Said, doomed: Doomed, makers: Collection[str]) -> tuple[list[str], list[str]]:
    """References of all that the nodes ever said, and of names and settings that go with them."""
    words: list[str] = []
    more: list[str] = []
    for node in doomed.nodes:
        words.extend(said.texts.get(node.node, ()))
        more.extend(said.names.get(node.node, ()))
    for run in makers:
        asked = said.asked.get(run)
        if asked is not None and (doomed.is_turns or asked.trigger != "generate"):
            words.extend([asked.text] if asked.text else [])
            more.extend([asked.settings, *([asked.persona] if asked.persona else [])])
        for one in said.written.get(run, ()):
            parts = (*one.user, *(one.parts if isinstance(one, ev.VariantEnded) else ()))
            words.extend(part.text for part in parts)
            more.extend(part.speaker for part in parts if part.speaker is not None)
    return words, more


async def _begun(services: Services, chat: ChatRow, runs: Sequence[str]) -> dict[bytes, str]:
    """Return the runs that began, by the name of what they were told to do."""
    rows = await runs_by_id(services.store, chat.tenant, runs)
    return {blob_name(row.settings): run for run, row in rows.items() if row.settings}


async def _record_keys(services: Services, chat: ChatRow, runs: Sequence[str]) -> dict[str, int]:
    """Return the keys of records that can be erased alone, by run."""
    settings = await _begun(services, chat, runs)
    keys = await part_keys_of(services.store, chat.tenant, list(settings))
    return {settings[name]: key for name, key in keys.items()}


# Quotations

_ESCAPE = re.compile(r"\\+(?:u[0-9a-fA-F]{4}|[nrtbf])?")
_WORD = re.compile(r"\w+")
Phrase = tuple[str, ...]


def _phrases(text: str) -> set[Phrase]:
    """Return the runs of words by which a text is known where it is quoted; none of a short, common one."""
    words = _words(text)
    if len(words) < 3 and not any(len(word) >= TELLING_CHARS for word in words):
        return set()
    return set(_runs_of(words, min(len(words), PHRASE_WORDS)))


def _words(text: str) -> list[str]:
    return _WORD.findall(_ESCAPE.sub(" ", text).casefold())


def _runs_of(words: Sequence[str], length: int) -> Iterator[Phrase]:
    return (tuple(words[at : at + length]) for at in range(len(words) - length + 1))


async def _texts(services: Services, chat: ChatRow, refs: Iterable[str]) -> dict[bytes, str]:
    """Return contents that are there, by name."""
    names, found = sorted({blob_name(ref) for ref in refs}), dict[bytes, str]()
    for start in range(0, len(names), 500):
        some = await services.store.blobs(chat.tenant, names[start : start + 500])
        found.update({name: content.decode(errors="replace") for name, content in some.items()})
    return found


def _quotes(text: str, phrases: Collection[Phrase]) -> bool:
    words = _words(text)
    lengths = {len(one) for one in phrases}
    return any(phrase in phrases for length in lengths for phrase in _runs_of(words, length))


async def _quoting(
    services: Services, chat: ChatRow, runs: dict[int, str], phrases: Collection[Phrase]
) -> list[str]:
    """Return the runs, by the key of their record, whose record has some of the words."""
    found: set[str] = set()
    for key, name in await contents_under(services.store, chat.tenant, list(runs)) if phrases else ():
        if runs[key] not in found:
            content = (await services.store.blobs(chat.tenant, [name])).get(name, b"")
            if _quotes(content.decode(errors="replace"), phrases):
                found.add(runs[key])
    return sorted(found)


async def _asks_quoting(
    services: Services, chat: ChatRow, asks: Sequence[str], phrases: Collection[Phrase]
) -> set[int]:
    """Return the keys of what runs were told to do, where that has some of the words."""
    quoting = [name for name, text in (await _texts(services, chat, asks)).items() if _quotes(text, phrases)]
    return set((await part_keys_of(services.store, chat.tenant, quoting)).values())
