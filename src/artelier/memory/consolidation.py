"""The background step that tidies one memory: merges, ages, promotes, throws out boot text; undone as one.

It never runs during a turn of its agent, and it decides by rules alone: no model is asked, so that the same
memory gives the same outcome.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from artelier.errors import Conflict, Flow, InvalidRequest, NotFound
from artelier.kernel.events import ContextCompacted
from artelier.kernel.queries import tenants as agents
from artelier.log import Blob, EventData, Store, Tx, blob_name
from artelier.log.queries import position_of
from artelier.memory import events as ev
from artelier.memory.entries import check_entry, entry_id
from artelier.memory.index.index_cache import EntryCard
from artelier.memory.index.near_duplicates import (
    Gist,
    Passages,
    duplicate_key,
    framing_terms,
    gist_of,
    say_the_same,
)
from artelier.memory.memory_handle import checked_key
from artelier.memory.message_history import Transcript
from artelier.memory.queries import newest_standing
from artelier.memory.view import IdTaken

if TYPE_CHECKING:
    from artelier.memory.index.index_cache import EntryCard
    from artelier.memory.store import LogMemory

CANDIDATES_MAX = 200
"""Entries that one is compared with."""
RAREST = 4
"""Words of an entry that a duplicate must share one of."""
REPEATED_BONUS = 0.02
"""Importance that each merged repetition adds to what is kept."""
FRESH_MIN = 100
"""Fewer fresh entries than this wait for the next time."""
IDLE_IMPORTANCE = 0.5
"""Up to here an entry may be idle: what nobody weighed."""


@dataclass(slots=True)
class Sifted:
    """The outcome: ids by why they go, and what changes in those that stay."""

    merged: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Kept id to those that say the same."""
    aged: list[str] = field(default_factory=list[str])
    boot: list[str] = field(default_factory=list[str])
    raised: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])

    @property
    def gone(self) -> int:
        return len(self.boot) + len(self.aged) + sum(map(len, self.merged.values()))


class _PlannedEntry(NamedTuple):
    card: EntryCard
    gist: Gist
    is_named: bool
    """Whether it speaks of somebody or something by name."""


def sift(
    cards: Sequence[EntryCard], passages: Passages, *, target: int, fresh_after: int | None, changes_max: int
) -> Sifted:
    """Sift entries, given in the order of adding.

    At most `target` remain. Of those added after the position `fresh_after` at most half do, as far as they
    are idle: no number, name, tag or weight. None spares the fresh ones.
    Cost: O(entries), each compared with at most 200 others.
    """
    found = Sifted()
    items: list[_PlannedEntry] = []
    names = _names(cards)
    for card in cards:
        gist = gist_of(card.text)
        item = _PlannedEntry(card, gist, not names.isdisjoint(gist.terms))
        if passages.hold(item.gist) and found.gone < changes_max:
            found.boot.append(card.id)
        else:
            items.append(item)
    kept = _merge(items, found, changes_max)
    fading = _by_worth(kept)
    if fresh_after is not None:
        fresh = sum(card.position > fresh_after for card in cards)
        fresh_kept = sum(item.card.position > fresh_after for item in kept)
        idle = [item for item in fading if item.card.position > fresh_after and _is_idle(item)]
        if fresh >= FRESH_MIN:
            excess = min(fresh_kept - fresh // 2, changes_max - found.gone)
            found.aged.extend(item.card.id for item in idle[: max(0, excess)])
    aged = set(found.aged)
    excess = min(len(kept) - len(aged) - target, changes_max - found.gone)
    rest = [item.card.id for item in fading if item.card.id not in aged]
    found.aged.extend(rest[: max(0, excess)])
    return found


def _is_idle(item: _PlannedEntry) -> bool:
    """Return True if nothing about an entry says that it matters."""
    card = item.card
    return (
        card.importance <= IDLE_IMPORTANCE and not card.tags and not item.gist.numbers and not item.is_named
    )


def _merge(items: list[_PlannedEntry], found: Sifted, changes_max: int) -> list[_PlannedEntry]:
    """Fill `merged` and `raised`; what is kept, in the order of adding."""
    frequency = Counter(term for item in items for term in item.gist.terms)
    by_term: dict[str, list[_PlannedEntry]] = {}
    groups: dict[str, list[_PlannedEntry]] = {}
    removed = found.gone
    for item in sorted(items, key=_plainness):
        rarest = sorted(item.gist.terms, key=lambda term: (frequency[term], term))[:RAREST]
        first = _original(item, [by_term.get(term, []) for term in rarest], frequency)
        if first is not None and removed < changes_max:
            groups[first.card.id].append(item)
            removed += 1
        else:
            groups[item.card.id] = [item]
            for term in item.gist.terms:
                by_term.setdefault(term, []).append(item)
    kept = [_settle(group, found, frequency) for group in groups.values()]
    return sorted(kept, key=lambda item: item.card.position)


def _plainness(item: _PlannedEntry) -> tuple[bool, int, int, int]:
    """Return what others are compared with first: trusted, then rich in fields, then without framing, then
    old.
    """
    card = item.card
    fields = len(card.tags) + bool(card.speaker) + bool(card.date)
    return card.trust != "trusted", -fields, len(item.gist.terms), card.position


def _original(
    item: _PlannedEntry, candidates: Sequence[Sequence[_PlannedEntry]], frequency: Counter[str]
) -> _PlannedEntry | None:
    """The entry that says the same and loses nothing that `item` has."""
    for among in candidates:
        for other in among[:CANDIDATES_MAX]:
            if _stands_for(other, item) and say_the_same(other.gist, item.gist, frequency):
                return other
    return None


def _stands_for(kept: _PlannedEntry, other: _PlannedEntry) -> bool:
    """Return True if it has all the fields of another, and no less trust."""
    return (
        other.card.about == kept.card.about
        and set(other.card.tags) <= set(kept.card.tags)
        and other.card.speaker in ("", kept.card.speaker)
        and other.card.date in ("", kept.card.date)
        and (kept.card.trust == "trusted" or other.card.trust != "trusted")
    )


def _settle(group: list[_PlannedEntry], found: Sifted, frequency: Counter[str]) -> _PlannedEntry:
    """Return what is kept of entries that say the same: in words that others use too, without framing."""
    if len(group) == 1:
        return group[0]

    def plain(item: _PlannedEntry) -> tuple[float, int, bool, int]:
        own = [frequency[term] for term in item.gist.terms if term not in framing_terms()]
        spelling = sum(map(math.log, own)) / max(1, len(own))
        is_shouted = item.card.text.isupper()
        return round(spelling, 6), -len(item.gist.terms), not is_shouted, -item.card.position

    able = [item for item in group if all(_stands_for(item, other) for other in group)]
    kept = max(able, key=plain)
    found.merged[kept.card.id] = [item.card.id for item in group if item is not kept]
    most = max(item.card.importance for item in group)
    after = min(1.0, round(most + REPEATED_BONUS * (len(group) - 1), 3))
    if after != kept.card.importance:
        found.raised[kept.card.id] = (kept.card.importance, after)
    return kept


def _by_worth(kept: list[_PlannedEntry]) -> list[_PlannedEntry]:
    """Return what is worth least first."""
    frequency = Counter(term for item in kept for term in item.gist.terms)
    worth = {
        item.card.id: _worth(item, place / len(kept), frequency, len(kept)) for place, item in enumerate(kept)
    }
    return sorted(kept, key=lambda item: (worth[item.card.id], item.card.position))


def _worth(item: _PlannedEntry, youth: float, frequency: Counter[str], total: int) -> float:
    """Importance first; then what only this entry says; then its youth (weights are a guess)."""
    # The mean, not the rarest: talk by a pattern holds a rare number too.
    rarity = sum(math.log(total / frequency[term]) for term in item.gist.terms) / (
        max(1, len(item.gist.terms)) * math.log(total + 1)
    )
    telling = min(1.0, len(item.gist.terms) / 4)
    named = 0.2 * bool(item.gist.numbers) + 0.2 * item.is_named
    return item.card.importance + rarity + 0.1 * telling + named + 0.15 * youth


def _names(cards: Sequence[EntryCard]) -> set[str]:
    """Terms that some entry writes with a capital letter within a sentence."""
    found: set[str] = set()
    for card in cards:
        if card.text.isupper():
            continue
        before = "."
        for word in card.text.split():
            if word[0].isupper() and before[-1] not in ".!?:" and len(word) > 1:
                found.update(gist_of(word).terms)
            before = word
    return found


CHANGES_MAX = 10_000
"""Entries that one consolidation removes; the next goes on."""
PROMOTED_MAX = 500
ATTEMPTS_MAX = 5
PROMOTED_IMPORTANCE = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A fact or identifier that compaction would lose."""

    text: str
    source: str = ""
    """Where it stood: a run, a message."""
    tags: tuple[str, ...] = ()
    importance: float = PROMOTED_IMPORTANCE
    trust: str = "untrusted"
    run_id: str | None = None
    """Whose loss it is: it is kept under the key of that run's subject."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consolidation:
    """The result of a consolidation. Without `change_id` nothing was changed."""

    change_id: int | None = None
    """For `undo`."""
    skipped: str = ""
    """Why it did not begin."""
    before: int = 0
    """Living entries."""
    after: int = 0
    merged: int = 0
    aged: int = 0
    boot: int = 0
    promoted: int = 0
    known: int = 0
    """Losses that memory holds already."""
    refused: int = 0
    """Losses that are boot text."""


class _RunAtWork(Flow):
    """A run of the agent is being driven."""


async def consolidate(
    memory: LogMemory,
    *,
    losses: Sequence[Loss] = (),
    boot_texts: Sequence[str] = (),
    target: int | None = None,
    runs: Store | None = None,
    anyway: bool = False,
    key: str | None = None,
    by: str | None = None,
) -> Consolidation:
    """Tidy a memory while its agent rests.

    `losses` are promoted unless they are known or boot text. `boot_texts` are the agent's own prompts and
    rules: entries that repeat them go. While more than `target` entries remain (half of `max_entries`
    unless said), those worth least fade; without a `target`, idle talk since the last time goes too, up to
    half of what was added. `runs` is the store of its runs, if it is another one; it is looked at before
    the work and again before the change. `anyway`: no run of the agent can be at work elsewhere.
    Errors: `Conflict` if the memory never stands still; `InvalidRequest` for a memory in a file of its own
            that holds no run of its agent, without `runs` and without `anyway`.
    Cost:   O(entries), off the event loop.
    """
    scope = memory.scope
    if runs is None and memory.is_apart and not anyway and not await has_runs(memory):
        raise InvalidRequest(
            f"the memory of agent {scope.agent} is in a file of its own: whether it is at work is not known",
            expected="the store of its runs",
            hint="Give runs=kernel.store; or anyway=True if no run of it can be at work.",
        )
    for _ in range(ATTEMPTS_MAX):
        opened = await scope.read_opened("write")
        # By its stream's number, which an export carries; the position is another one in each store.
        label = checked_key(key or f"consolidate:seq:{(await scope.store.head(scope.stream))[0]}")
        asked = await scope.hash_request("consolidate", label)
        if (done := await scope.find_applied(label, asked)) is not None:
            return _read_recorded(*done)
        if (driven := await _driven_run(memory, runs)) is not None:
            return _skip(driven)
        config = await memory.entries.config(opened) if opened else None
        keep = target if target is not None else (config.max_entries // 2 if config else 1)
        if keep < 1:
            raise InvalidRequest("target of a consolidation", expected="from 1", got=keep)
        cards = await memory.entries.cards()
        passages = Passages(boot_texts)
        fresh_after = await newest_consolidation(memory) if target is None else None
        sifted = await asyncio.to_thread(
            sift, cards, passages, target=keep, fresh_after=fresh_after, changes_max=CHANGES_MAX
        )
        plan = _PlanAttempt(memory, cards, sifted, passages, label)
        await plan.promote(losses)
        if plan.is_empty:
            return plan.outcome(None)
        if runs is not None and (driven := await _driven_run(memory, runs)) is not None:
            return _skip(driven)  # it began while this looked at the entries
        try:
            receipt = await scope.record(
                plan.events(asked),
                blobs=plan.blobs,
                by=by,
                guard=_guard(memory) if runs in (None, scope.store) else None,
            )
            return plan.outcome(receipt.seqs[0])
        except _RunAtWork as at_work:
            return _skip(str(at_work))
        except Conflict:
            continue  # somebody wrote meanwhile: sift again
    raise Conflict("this memory changes faster than it can be consolidated", hint="Try later.")


class _PlanAttempt:
    """One attempt."""

    def __init__(
        self, memory: LogMemory, cards: Sequence[EntryCard], sifted: Sifted, passages: Passages, key: str
    ) -> None:
        self._memory = memory
        self._cards = cards
        self._sifted = sifted
        self._passages = passages
        self._key = key
        self._known = 0
        self._refused = 0
        self._added: list[ev.MemoryAdded] = []
        self.blobs: list[Blob] = []

    @property
    def is_empty(self) -> bool:
        return not self._sifted.gone and not self._added

    async def promote(self, losses: Sequence[Loss]) -> None:
        """Turn losses into entries, leaving out what is known and what is boot text."""
        gone = {*self._sifted.aged, *self._sifted.boot}
        for ids in self._sifted.merged.values():
            gone.update(ids)
        texts = [card.text.casefold() for card in self._cards if card.id not in gone]
        known = {duplicate_key(text) for text in texts}
        ids = {card.id for card in self._cards}
        everything = "\n".join(texts)
        for loss in losses[:PROMOTED_MAX]:
            words = duplicate_key(loss.text)
            if self._passages.hold(gist_of(loss.text)):
                self._refused += 1
            elif words in known or loss.text.strip().casefold() in everything:
                self._known += 1
            else:
                known.add(words)
                event = await self._entry(loss, len(self._added), words, ids)
                ids.add(event.id)
                self._added.append(event)

    async def _entry(self, loss: Loss, number: int, words: bytes, ids: set[str]) -> ev.MemoryAdded:
        source = (f"from:{loss.source}"[:200],) if loss.source else ()
        wanted = check_entry(loss.text, (*loss.tags, *source), loss.importance, "", "", loss.trust)
        scope, entries = self._memory.scope, self._memory.entries
        own = await scope.key_of_run(loss.run_id)
        for n in range(ATTEMPTS_MAX):
            id_ = entry_id(scope.artifact, f"{self._key}/{number}", n)
            if id_ not in ids and not await entries.is_taken(id_):
                return ev.MemoryAdded(
                    store=scope.artifact,
                    id=id_,
                    mark=await scope.mark(words, under=own),
                    embedder=entries.embedder.name,
                    content=await scope.keep(wanted.content(), self.blobs, under=own),
                    vector=await scope.keep(await entries.vector(wanted.text), self.blobs, under=own),
                    importance=wanted.importance,
                    trust=wanted.trust,
                    within=True,
                )
        raise IdTaken("no free id for a promoted fact")

    def events(self, asked: str) -> list[EventData]:
        sifted, store = self._sifted, self._memory.scope.artifact
        consolidated = ev.MemoryConsolidated(
            store=store,
            key=self._key,
            asked=asked,
            merged=tuple(ev.Merged(kept=kept, removed=tuple(ids)) for kept, ids in sifted.merged.items()),
            aged=tuple(sifted.aged),
            boot=tuple(sifted.boot),
            promoted=tuple(event.id for event in self._added),
            raised=tuple(
                ev.Raised(id=id_, before=round(before * 1000), after=round(after * 1000))
                for id_, (before, after) in sifted.raised.items()
            ),
        )
        return [*self._added, consolidated]

    def outcome(self, change_id: int | None) -> Consolidation:
        sifted, before = self._sifted, len(self._cards)
        return Consolidation(
            change_id=change_id,
            before=before,
            after=before - sifted.gone + len(self._added),
            merged=sum(map(len, sifted.merged.values())),
            aged=len(sifted.aged),
            boot=len(sifted.boot),
            promoted=len(self._added),
            known=self._known,
            refused=self._refused,
        )


def _read_recorded(change_id: int, event: EventData) -> Consolidation:
    """Return what a key led to when it was applied; how many entries there were is not told again."""
    assert isinstance(event, ev.MemoryConsolidated)
    return Consolidation(
        change_id=change_id,
        merged=sum(len(one.removed) for one in event.merged),
        aged=len(event.aged),
        boot=len(event.boot),
        promoted=len(event.promoted),
    )


def _skip(run_id: str) -> Consolidation:
    return Consolidation(skipped=f"run {run_id} of this agent is at work")


async def _driven_run(memory: LogMemory, runs: Store | None) -> str | None:
    """A run of the agent that some process drives now."""
    scope = memory.scope
    now_us = scope.clock.now_us()
    return await agents.driven_run(runs or scope.store, scope.tenant, scope.agent, now_us=now_us)


async def has_runs(memory: LogMemory, runs: Store | None = None) -> bool:
    """Return True if a store, or else the memory's own, holds a run of its agent."""
    scope = memory.scope
    return await agents.has_runs(runs or scope.store, scope.tenant, scope.agent)


async def newest_consolidation(memory: LogMemory) -> int:
    """Position of the newest consolidation that stands; 0 without one."""
    scope = memory.scope
    seq = await newest_standing(scope.store, await scope.row_id(), "memory.consolidated")
    return await position_of(scope.store, scope.stream, seq) if seq else 0


def _guard(memory: LogMemory) -> Callable[[Tx], None]:
    scope = memory.scope

    def refuse(tx: Tx) -> None:
        now_us = scope.clock.now_us()
        if (run := agents.driven_run_in(tx, scope.tenant, scope.agent, now_us=now_us)) is not None:
            raise _RunAtWork(run)

    return refuse


# --------------------------------------------------------------------------- compaction losses
# The losses of compactions in an agent's runs, as facts that a consolidation can promote.
# A receipt lists bare identifiers, numbers and paths; a memory needs the sentence in which they stood.


RUNS_MAX = 100
"""Newest runs of the agent that are looked at."""
RECEIPTS_MAX = 200
SENTENCE_CHARS_MAX = 400
MESSAGE_CHARS_MAX = 4_000

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


async def losses_of(memory: LogMemory, *, runs: Store | None = None) -> list[Loss]:
    """The sentences that held what is in no summary, newest compactions first, at most 500.

    Messages above 4,000 characters are left out: they are data rather than talk, and kept as artifacts.
    `runs` is the store of the agent's runs, if it is another one; else only compactions since the last
    consolidation count.
    Cost: O(events of its newest 100 runs).
    """
    scope = memory.scope
    store = runs or scope.store
    since = await newest_consolidation(memory) if store is scope.store else 0
    rows = await agents.newest_compactions(
        store, scope.tenant, scope.agent, after=since, runs=RUNS_MAX, limit=RECEIPTS_MAX
    )
    found: dict[str, Loss] = {}
    for row_id, run_id, data in rows:
        receipt = msgspec.json.decode(data, type=ContextCompacted)
        facts = await _facts(store, scope.tenant, receipt.loss)
        if not facts:
            continue
        said = Transcript(store, scope.tenant).messages(
            row_id, receipt.conversation, after=receipt.start - 1, upto=receipt.end
        )
        async for n, message in said:
            if message is None or message.role == "system" or len(message.text) > MESSAGE_CHARS_MAX:
                continue
            for sentence in _telling(message.text, facts):
                source = f"{run_id}, message {n}"
                loss = Loss(text=sentence, source=source, trust=_trust(receipt), run_id=run_id)
                found.setdefault(sentence, loss)
                if len(found) >= PROMOTED_MAX:
                    return list(found.values())
    return list(found.values())


async def _facts(store: Store, tenant: str, loss: str | None) -> set[str]:
    """Return what a receipt lists as lost, in small letters."""
    if loss is None:
        return set()
    try:
        report = msgspec.json.decode(await store.blob(tenant, blob_name(loss)), type=dict[str, list[str]])
    except (NotFound, msgspec.MsgspecError):
        return set()  # erased, or of another version
    return {fact.casefold() for kind, facts in report.items() if kind != "questions" for fact in facts}


def _telling(text: str, facts: set[str]) -> list[str]:
    """Sentences that hold one of the facts. Each fact is told by its first sentence."""
    found: list[str] = []
    for sentence in _SENTENCE.split(text):
        folded = sentence.casefold()
        told = {fact for fact in facts if fact in folded}
        if told and len(sentence) <= SENTENCE_CHARS_MAX:
            facts -= told
            found.append(sentence.strip())
    return found


def _trust(receipt: ContextCompacted) -> str:
    return receipt.trust if receipt.trust in ("trusted", "untrusted") else "untrusted"
