"""The services of the kernel in a world: parts of the host that are invoked like programs.

Their artifacts, which say what each costs, are written by `genesis`. `genesis_memory_add` and
`genesis_memory_search` serve those who may write or read a memory store; a search gives what reading would
give, so what it finds costs the store's read price too.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from artelier.artifacts import (
    AccessVerdict,
    Call,
    Ref,
    Service,
    Tree,
    Working,
    account_of,
    check_principal,
    judge,
)
from artelier.artifacts.access import Bill
from artelier.artifacts.contracts import permit
from artelier.artifacts.events import ArtifactCharged
from artelier.artifacts.invocation_tree import Free
from artelier.artifacts.ref import check_new_id
from artelier.artifacts.space_session import Door, find_text
from artelier.context import Source
from artelier.errors import ArtelierError, InvalidArguments, InvalidRequest, NotFound
from artelier.log import Event, Stream
from artelier.memory.entries import TEXT_CHARS_MAX
from artelier.world.config import WorldConfig, read_config
from artelier.world.mind_artifacts import Skip
from artelier.world.queries.market import find_offer
from artelier.world.queries.worlds import find_world
from artelier.world.stores.entries import (
    StoreConfig,
    add_entry,
    as_numbers,
    config_of,
    embed,
    embedder_of,
    is_empty,
    store_of,
)
from artelier.world.stores.search import Scored, StoreHit, fit_hits, search_entries
from artelier.world.tick.tick_context import ActionStep, Scene
from artelier.world.tick.world_state import TickClock, WorldStage, as_stage

if TYPE_CHECKING:
    from artelier.world.mind.billed_reads import BilledReader


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of one service; an unknown one is a mistake that would otherwise go unseen."""


Shape = TypeVar("Shape", bound=Arguments)


def arguments(given: Mapping[str, Any], shape: type[Shape]) -> Shape:
    """Errors: `InvalidArguments` that names the argument."""
    try:
        return msgspec.convert(dict(given), shape)
    except msgspec.ValidationError as error:
        raise InvalidArguments(
            f"invalid arguments: {error}".replace("Object", "The call").replace("`$.", "`"),
            expected=", ".join(shape.__struct_fields__) or "no arguments",
        ) from None


def ref_of(id: str) -> Ref:
    """The newest version of an artifact. Errors: `InvalidArguments` for what can be no id."""
    try:
        return Ref(check_new_id(id))
    except InvalidRequest as error:
        raise InvalidArguments(error.message, expected=error.expected, got=error.got) from None


# --------------------------------------------------------------------------- action stub
# Services that are reached by actions of their own: invoking them says which.


class Described:
    """A service with a handbook and no program."""

    def __init__(self, id: str, *actions: str) -> None:
        self._id = id
        self._actions = actions

    def units(self, args: Mapping[str, Any], /) -> int:
        raise self._refused_error()

    async def run(self, working: Working, call: Call, tree: Tree, /) -> object:
        raise self._refused_error()

    def _refused_error(self) -> InvalidArguments:
        return InvalidArguments(
            f"{self._id} is not invoked", expected=f"the action {' or '.join(self._actions)}"
        )


# --------------------------------------------------------------------------- ledger
# `genesis_ledger`: balances.


class _Whose(Arguments, frozen=True, kw_only=True):
    principal: str | None = None


class Ledger:
    """`{principal}`, by default the caller, gives `{principal, balance}`: scrip, now."""

    def units(self, args: Mapping[str, Any], /) -> int:
        arguments(args, _Whose)
        return 1

    async def run(self, working: Working, call: Call, tree: Tree, /) -> dict[str, Any]:
        principal = arguments(call.args, _Whose).principal or call.caller
        try:
            check_principal(principal)
        except InvalidRequest as error:
            raise InvalidArguments(error.message, expected=error.expected, got=error.got) from None
        return {"principal": principal, "balance": await working.balance(account_of(principal))}


# --------------------------------------------------------------------------- embedder
# `genesis_embedder`: texts to vectors.


TEXTS_MAX = 16
"""In one call: their vectors are just below what an invocation may give."""


class _Texts(Arguments, frozen=True, kw_only=True):
    text: str | None = None
    texts: list[str] | None = None


class EmbedderService:
    """`{text}` gives `{embedding, dims}`; `{texts}` gives `{embeddings, dims}`, each at the posted price."""

    def units(self, args: Mapping[str, Any], /) -> int:
        return len(_texts(args))

    async def run(self, working: Working, call: Call, tree: Tree, /) -> dict[str, Any]:
        texts = _texts(call.args)
        vectors = [as_numbers(one) for one in await embed(embedder_of(StoreConfig()), texts)]
        if call.args.get("texts") is None:
            return {"embedding": vectors[0], "dims": len(vectors[0])}
        return {"embeddings": vectors, "dims": len(vectors[0])}


def _texts(args: Mapping[str, Any]) -> list[str]:
    given = arguments(args, _Texts)
    if (given.text is None) == (given.texts is None):
        raise InvalidArguments("what is to be embedded", expected="either `text` or `texts`")
    texts = [given.text] if given.text is not None else given.texts or []
    if not 1 <= len(texts) <= TEXTS_MAX:
        raise InvalidArguments("texts", expected=f"1 to {TEXTS_MAX} of them", got=len(texts))
    for text in texts:
        if not text.strip() or len(text) > TEXT_CHARS_MAX:
            raise InvalidArguments(
                "a text to be embedded",
                expected=f"1 to {TEXT_CHARS_MAX} characters",
                got=f"{len(text)} characters",
            )
    return texts


# --------------------------------------------------------------------------- event log
# `genesis_event_log`: what happened lately, as far as the caller may know: who, what, for how much.
# Content is never among it, nor what agents think, read, say to each other, bid or remember.


LAST_MAX = 50

LOOKED_AT_MAX = 1_000
"""Events that one answer looks through, from the newest backwards."""

_PAGE = 200

_FACTS: Mapping[str, tuple[str, ...]] = {
    "agent.joined": ("agent",),
    "agent.left": ("agent",),
    "artifact.written": ("id", "version", "prices"),
    "artifact.deleted": ("id",),
    "artifact.transferred": ("id", "giver", "to"),
    "artifact.invoked": ("id", "caller", "outcome", "price"),
    "offer.made": ("offer", "artifact", "seller", "price", "sells"),
    "offer.accepted": ("offer", "artifact", "buyer", "seller", "price", "sells"),
    "offer.cancelled": ("offer",),
    "auction.closed": ("round", "winner", "artifact", "price", "score", "minted"),
    "tick.passed": ("acted",),
}
"""The public events, and what is told of each."""


class _Last(Arguments, frozen=True, kw_only=True):
    last: Annotated[int, Meta(ge=1, le=LAST_MAX)] = 10


class EventLog:
    """`{last}` gives `{events: [{tick, kind, by, ...}]}`, the newest last."""

    def units(self, args: Mapping[str, Any], /) -> int:
        arguments(args, _Last)
        return 1

    async def run(self, working: Working, call: Call, tree: Tree, /) -> dict[str, Any]:
        last = arguments(call.args, _Last).last
        store = store_of(working)
        stream = Stream(working.tenant, working.space, working.space)
        looker = _Looker(working, call.caller, tree, await _config(working))
        end, _hash = await store.head(stream)
        stop, found = max(0, end - LOOKED_AT_MAX), list[dict[str, Any]]()
        while end > stop and len(found) < last:
            start = max(stop, end - _PAGE)
            for event in reversed(await store.read(stream, after=start, limit=end - start)):
                if len(found) < last and (fact := await looker.fact(event)) is not None:
                    found.append(fact)
            end = start
        return {"events": found[::-1]}


class _Looker:
    """The events as one principal may see them."""

    def __init__(self, working: Working, caller: str, tree: Tree, config: WorldConfig) -> None:
        self._working = working
        self._caller = caller
        self._gate = tree.gate(working)
        self._network = config.network
        self._seen: dict[str, bool] = {}
        self._offers: dict[str, bool] = {}

    async def fact(self, event: Event) -> dict[str, Any] | None:
        names = _FACTS.get(event.kind)
        if names is None or not self._sees(event.actor):
            return None
        data = event.plain()
        if event.kind.startswith("artifact.") and not await self._finds(data["id"]):
            return None
        if event.kind.startswith("offer.") and not await self._is_offered(data["offer"]):
            return None
        told = {name: data[name] for name in names if name in data}
        return {"tick": event.at_us, "kind": event.kind, "by": event.actor, **told}

    def _sees(self, actor: str) -> bool:
        network = self._network
        is_host = actor in ("world", "operator") or actor.startswith("user:")
        if network is None or is_host or actor == self._caller:
            return True
        return actor in network.get(self._caller, ())

    async def _finds(self, id: str) -> bool:
        """Return True if a search may show the artifact now."""
        if id not in self._seen:
            verdict = await permit(self._working, self._gate, Ref(id), "search", self._caller)
            self._seen[id] = verdict.allowed
        return self._seen[id]

    async def _is_offered(self, offer: str) -> bool:
        """Return True if an offer is made to all, or to or by the caller."""
        if offer not in self._offers:
            working = self._working
            found = await find_offer(store_of(working), working.tenant, working.space, offer)
            self._offers[offer] = found is not None and (
                found.to in ("", self._caller) or found.seller == self._caller
            )
        return self._offers[offer]


async def _config(working: Working) -> WorldConfig:
    world = await find_world(store_of(working), working.tenant, working.space.removeprefix("world:"))
    if world is None:
        return WorldConfig()
    return read_config(msgspec.json.decode(await working.blob(world.config)))


# --------------------------------------------------------------------------- search
# Search as an action: what an agent may read, at the end of the tick before.


class FoundPrices(msgspec.Struct, frozen=True, kw_only=True):
    """The prices of an artifact, in scrip."""

    read: int
    invoke: int
    inclusion: int


class FoundArtifact(msgspec.Struct, frozen=True, kw_only=True):
    """An artifact that a search has found, without its content."""

    id: str
    kind: str
    version: int
    owner: str
    prices: FoundPrices


async def find(
    step: ActionStep, *, text: str, kind: str | None, owner: str | None, limit: int
) -> list[FoundArtifact]:
    """Return the artifacts that an agent finds, newest first."""
    scene = step.scene
    door = Door(
        scene.stage.store,
        TickClock.at(scene.tick),
        scene.tenant,
        scene.space,
        step.agent,
        scene.interpreter,
        step.decisions,
        WorldStage,
    )
    return await list_found(door, text=text, kind=kind, owner=owner, limit=limit)


async def list_found(
    door: Door, *, text: str, kind: str | None, owner: str | None, limit: int
) -> list[FoundArtifact]:
    """Return what the principal of a door finds, newest first."""
    found = await find_text(door, text=text, kind=kind, owner=owner, limit=limit)
    return [
        FoundArtifact(
            id=one.id,
            kind=one.kind,
            version=one.version,
            owner=one.owner,
            prices=FoundPrices(
                read=one.prices.read, invoke=one.prices.invoke, inclusion=one.prices.inclusion
            ),
        )
        for one in found
    ]


# --------------------------------------------------------------------------- store search
# `genesis_store`: artifacts by words, kind and owner, as the caller may find them.


LIMIT_MAX = 50

Text = Annotated[str, Meta(max_length=500)]


class _StoreSearchArguments(Arguments, frozen=True, kw_only=True):
    text: Text = ""
    kind: Text | None = None
    owner: Text | None = None
    limit: Annotated[int, Meta(ge=1, le=LIMIT_MAX)] = 20


class ArtifactStore:
    """`{text, kind, owner, limit}` gives `{artifacts: [{id, kind, version, owner, prices}]}`, newest first.

    It finds what stood at the end of the tick before.
    """

    def units(self, args: Mapping[str, Any], /) -> int:
        arguments(args, _StoreSearchArguments)
        return 1

    async def run(self, working: Working, call: Call, tree: Tree, /) -> dict[str, Any]:
        given = arguments(call.args, _StoreSearchArguments)
        door = Door(
            store_of(working),
            TickClock.at(working.at_us),
            working.tenant,
            working.space,
            call.caller,
            tree.interpreter,
            tree.decisions,
            WorldStage,
        )
        found = await list_found(door, text=given.text, kind=given.kind, owner=given.owner, limit=given.limit)
        return {"artifacts": msgspec.to_builtins(found)}


MEMORY_SEARCH = "genesis_memory_search"
MEMORY_ADD = "genesis_memory_add"


class _MemorySearchArguments(Arguments, frozen=True, kw_only=True):
    memory_artifact_id: str
    query: str
    limit: int = 5


class _Add(Arguments, frozen=True, kw_only=True):
    memory_artifact_id: str
    text: str
    tags: list[str] | None = None
    importance: Annotated[float, Meta(ge=0, le=1)] = 0.5


class MemorySearchService:
    """`{memory_artifact_id, query, limit}` gives `{results: [...]}`, the best first; free without any."""

    def units(self, args: Mapping[str, Any], /) -> int:
        arguments(args, _MemorySearchArguments)
        return 1

    async def run(self, working: Working, call: Call, tree: Tree, /) -> dict[str, Any] | Free:
        results = await _search(working, call, tree, arguments(call.args, _MemorySearchArguments))
        is_free = not results and await as_stage(working.ground).asks_consent()
        return Free({"results": []}) if is_free else {"results": msgspec.to_builtins(results)}


class MemoryAdd:
    """`{memory_artifact_id, text, tags, importance}` gives `{entry_id, deduplicated, pruned}`.

    Of an entry that says the same as one that is there, nothing is stored; `entry_id` is that one's.
    """

    def units(self, args: Mapping[str, Any], /) -> int:
        arguments(args, _Add)
        return 1

    async def run(self, working: Working, call: Call, tree: Tree, /) -> dict[str, Any]:
        given = arguments(call.args, _Add)
        ref = ref_of(given.memory_artifact_id)
        verdict = await judge(working, tree.gate(working), ref, "write", call.caller)
        added = await add_entry(
            working,
            verdict.granted(),
            text=given.text,
            tags=given.tags or [],
            importance=given.importance,
            actor=call.caller,
        )
        return {"entry_id": added.entry, "deduplicated": added.deduplicated, "pruned": list(added.pruned)}


async def search_memory(
    working: Working, principal: str, tree: Tree, /, *args: Any, **kwargs: Any
) -> list[dict[str, Any]]:
    """`search_memory(memory_artifact_id, query, limit=5)` of code in the sandbox, paid by the artifact.

    Errors: those of the service, `NotFound` in a world without it.
    """
    names = inspect.signature(_parameters)
    try:
        bound = names.bind(*args, **kwargs)
    except TypeError as error:
        raise InvalidArguments(f"search_memory(): {error}") from None
    given = arguments(bound.arguments, _MemorySearchArguments)
    service = await judge(working, tree.gate(working), Ref(MEMORY_SEARCH), "invoke", principal)
    if service.refusal == "missing" or not is_service(service):
        raise NotFound("this world offers no search in memories")
    service.granted()
    inner = Working(working)
    await charge(inner, [service])
    call = Call(caller=principal, id=MEMORY_SEARCH, args={})
    results = await _search(inner, call, tree, given)
    if results or not await as_stage(working.ground).asks_consent():
        working.absorb(inner)
    return msgspec.to_builtins(results)


def is_service(verdict: AccessVerdict) -> bool:
    """Return True if the artifact of a service is that: it owns itself."""
    return verdict.standing is not None and verdict.standing.owner == verdict.standing.id


def _parameters(memory_artifact_id: object, query: object, limit: object = 5) -> None: ...


async def _search(working: Working, call: Call, tree: Tree, given: _MemorySearchArguments) -> list[StoreHit]:
    """Search as the caller. Errors: `NotFound`, `AccessDenied`, `InsufficientFunds`, `InvalidArguments`."""
    ref = ref_of(given.memory_artifact_id)
    verdict = await judge(
        working,
        tree.gate(working),
        ref,
        "read",
        call.caller,
        price_max=await _left_of(working, call, tree, ref),
    )
    found = await search_entries(working, verdict.granted(), given.query, limit=given.limit)
    if found:
        await charge(working, [verdict])
    return fit_hits(found)


async def _left_of(working: Working, call: Call, tree: Tree, ref: Ref) -> int | None:
    """Return what the caller agrees to pay for the store, beyond the price of the search itself."""
    if call.price_max is None:
        return await tree.agreed_price(call, "read", ref.id)
    service = await working.standing(call.id)
    posted = Bill.posted_price("invoke", service) if service is not None else 0
    return max(0, call.price_max - posted)


async def charge(working: Working, verdicts: Sequence[AccessVerdict]) -> None:
    """Take up what accesses cost. Errors: `InsufficientFunds`."""
    for verdict in verdicts:
        event = verdict.charge()
        if event is not None:
            await working.apply(event, actor=verdict.principal)


# --------------------------------------------------------------------------- memory injection
# An agent's long-term memory in its prompt: one search at each model step, at the posted price.


LINE_CHARS_MAX = 1_000
"""Of one memory in a prompt."""

WHY = "long-term memory"


async def recent_memories(
    scene: Scene, reader: BilledReader, store_id: str, query: str, *, limit: int = 5
) -> tuple[str, tuple[Source, ...]]:
    """Return what the memory store of an agent holds on a query, a line each, and where each comes from.

    It is a use of `genesis_memory_search` by the agent: if anything was found, its price and what the store
    asks for being read and included are among the reader's charges. Without right, money, store or service
    the text is empty and the reader's `skipped` says why.
    Without a query, or in a store without entries, nothing is searched and nothing is paid.
    Shapes: lines `- [tick 41] text (tags: a, b)`; sources `store#mem_1a2b3c4d`.
    Errors: none of what agents can bring about.
    """
    from artelier.world.mind.billed_reads import SkippedRead

    def skip(why: Skip) -> tuple[str, tuple[Source, ...]]:
        reader.skipped.append(SkippedRead(WHY, store_id, why))
        return "", ()

    verdicts = await _readable(reader, store_id)
    if isinstance(verdicts, str):
        return skip(verdicts)
    if reader.scene.config.asks_consent and not reader.agrees(store_id, verdicts):
        return skip("too_dear")
    standing = verdicts[0].granted()
    try:
        await config_of(reader.stage, standing)
    except ArtelierError:
        return skip("failed")  # no memory store
    service = await judge(reader.stage, reader.gate, Ref(MEMORY_SEARCH), "invoke", reader.agent)
    if service.standing is not None and not is_service(service):
        return skip("missing")  # somebody's artifact of that name
    if service.refusal not in (None, "no_funds"):
        return skip(service.refusal)
    if not query or await is_empty(reader.stage, store_id):
        return "", ()
    if service.refusal is not None:
        return skip(service.refusal)
    due = _due(reader, [*verdicts, service])
    if not reader.purse.covers([posting for charge in due for posting in charge.postings]):
        return skip("no_funds")
    try:
        found = await search_entries(reader.stage, standing, query, limit=limit)
    except ArtelierError:
        return skip("failed")  # no vector: nothing is paid
    searched = [] if scene.config.asks_consent else [one for one in due if one.id == MEMORY_SEARCH]
    used = due if found else searched
    if not reader.charge(*used):
        return skip("no_funds")
    sources = tuple(Source(ref=f"{store_id}#{one.card.id}", why=WHY) for one in found)
    return "\n".join(_line(one) for one in found), sources


async def _readable(reader: BilledReader, store_id: str) -> list[AccessVerdict] | Skip:
    """Judge whether a store may be read and shown in a prompt; return the verdicts, or why it is skipped."""
    try:
        ref = Ref.parse(store_id)
    except InvalidRequest:
        return "missing"
    if ref.part is not None or ref.version is not None:
        return "missing"  # entries have no versions, and a part is no store
    verdicts: list[AccessVerdict] = []
    for action in ("read", "include"):
        verdict = await judge(reader.stage, reader.gate, ref, action, reader.agent)
        if verdict.refusal is not None:
            stands = await reader.stage.standing(ref.id)
            return "deleted" if stands is not None and stands.deleted else verdict.refusal
        verdicts.append(verdict)
    return verdicts


def _due(reader: BilledReader, verdicts: Sequence[AccessVerdict]) -> list[ArtifactCharged]:
    """Return what is to be paid for a look into the store, beyond what this prompt has paid for already."""
    due: list[ArtifactCharged] = []
    paid = {(charge.id, charge.action) for charge in reader.charges}
    licences = {charge.licence for charge in reader.charges if charge.licence}
    for verdict in verdicts:
        charge = verdict.charge()
        if charge is None or charge.licence in licences:
            continue
        if verdict.action == "invoke" or (charge.id, charge.action) not in paid:
            due.append(charge)
            licences |= {charge.licence} - {""}
    return due


def _line(one: Scored) -> str:
    """One line, whatever the text holds: a line break in a memory must not begin another one."""
    card = one.card
    text = " ".join(card.text.split())
    if len(text) > LINE_CHARS_MAX:
        text = text[: LINE_CHARS_MAX - 1] + "…"
    tags = ", ".join(" ".join(tag.split()) for tag in card.tags)
    return f"- [tick {card.tick}] {text}" + (f" (tags: {tags})" if tags else "")


@lru_cache(maxsize=1)
def shipped_services() -> Mapping[str, Service]:
    """Return the shipped services by the id of their artifact."""
    return {
        "genesis_embedder": EmbedderService(),
        "genesis_escrow": Described("genesis_escrow", "offer", "accept", "cancel_offer"),
        "genesis_event_log": EventLog(),
        "genesis_ledger": Ledger(),
        MEMORY_ADD: MemoryAdd(),
        MEMORY_SEARCH: MemorySearchService(),
        "genesis_mint": Described("genesis_mint", "bid"),
        "genesis_store": ArtifactStore(),
    }
