"""The shipped services that need no store of their own: ledger, event log, embedder, artifact search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from artelier.artifacts import Call, Ref, Tree, Working, account_of, check_principal
from artelier.artifacts.contracts import permit
from artelier.artifacts.ref import check_new_id
from artelier.artifacts.space_session import Door, find_text
from artelier.errors import InvalidArguments, InvalidRequest
from artelier.log import Event, Stream
from artelier.memory.entries import TEXT_CHARS_MAX
from artelier.world.config import WorldConfig, read_config
from artelier.world.queries.market import find_offer
from artelier.world.queries.worlds import find_world
from artelier.world.stores.entries import store_of
from artelier.world.stores.kind import StoreConfig, as_numbers, embed, embedder_of
from artelier.world.tick.tick_context import ActionStep
from artelier.world.tick.world_state import TickClock, WorldStage


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


async def find(
    step: ActionStep, *, text: str, kind: str | None, owner: str | None, limit: int
) -> list[dict[str, Any]]:
    """`{id, kind, version, owner, prices}` of each artifact found, newest first; no content."""
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
) -> list[dict[str, Any]]:
    """`{id, kind, version, owner, prices}` of what the principal of a door finds."""
    found = await find_text(door, text=text, kind=kind, owner=owner, limit=limit)
    return [
        {
            "id": one.id,
            "kind": one.kind,
            "version": one.version,
            "owner": one.owner,
            "prices": {
                "read": one.prices.read,
                "invoke": one.prices.invoke,
                "inclusion": one.prices.inclusion,
            },
        }
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
        return {"artifacts": found}
