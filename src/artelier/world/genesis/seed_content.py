"""The content that a world begins with: services, libraries, the handbook, the artifacts of an agent."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from artelier.artifacts import Working, check_principal
from artelier.artifacts.ref import check_new_id
from artelier.artifacts.write_decision import WriteRequest, decide_write
from artelier.errors import ArtelierError, Conflict, InvalidConfig, InvalidRequest, SequenceConflict
from artelier.log import Batch, Blob, DataKey, Draft, EventData, StreamAppend
from artelier.world.actions import ACTIONS, actions_prompt
from artelier.world.actions.action import schema_of
from artelier.world.events import world_space, world_stream
from artelier.world.mind_artifacts import prompt_library, shipped_workflow, workflow_templates
from artelier.world.mind_artifacts.prompt import PROMPT_LIBRARY, WORKFLOW_TEMPLATES
from artelier.world.mind_artifacts.workflow import WORKFLOW_LIBRARY
from artelier.world.tick.world_state import WorldStage

if TYPE_CHECKING:
    from artelier.world.config import WorldConfig
    from artelier.world.world import World


# --------------------------------------------------------------------------- batch builder
# Many artifacts in one batch: what a world begins with is there as a whole, or not at all.


ATTEMPTS_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """One artifact as it should begin. Its owner is its creator."""

    id: str
    kind: str
    owner: str
    content: Any
    access: object = None
    """None: the default of its kind."""
    prices: dict[str, int] | None = None
    interface: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    place: str = ""
    """Where it stands in a file, for errors."""


@dataclass(slots=True)
class Beginning:
    """The events of a batch, with who brought each about, and the blobs they name."""

    events: list[tuple[EventData, str]]
    blobs: list[Blob]


def decide(made: Sequence[Made], *, tenant: str, key: DataKey) -> Beginning:
    """The first version of each artifact. Nothing is written.

    Errors: `InvalidConfig` that names the artifact and its place in the file; an id that stands twice.
    """
    beginning = Beginning([], [])
    seen: dict[str, str] = {}
    for one in made:
        where = f"{one.place}: " if one.place else ""
        if one.id in seen:
            other = f" (also {seen[one.id]})" if seen[one.id] else ""
            raise InvalidConfig(f"{where}there are two artifacts {one.id}{other}")
        seen[one.id] = one.place
        wish = WriteRequest(
            id=one.id,
            content=one.content,
            kind=one.kind,
            access=one.access,
            prices=one.prices,
            interface=one.interface,
            metadata=one.metadata,
        )
        try:
            check_new_id(one.id)
            check_principal(one.owner)
            event, blobs = decide_write(wish, None, None, tenant=tenant, principal=one.owner, key=key)
        except ArtelierError as error:
            raise InvalidConfig(
                f"{where}artifact {one.id}: {error.message}",
                expected=error.expected,
                got=error.got,
                hint=error.hint,
            ) from None
        beginning.events.append((event, one.owner))
        beginning.blobs += blobs
    return beginning


async def make(world: World, made: Sequence[Made]) -> tuple[str, ...]:
    """Write those whose ids are not taken, as one batch; their ids. Twice is once.

    What is there stays as it is, whoever wrote it; so does what was deleted.

    Errors: `NotFound` for a world that is not there; `InvalidConfig` for what cannot be stored; `Conflict`
    if the world is being changed all the time.
    """
    host = world.host
    store, tenant = host.services.store, host.id
    key = (await host.state()).key
    for _ in range(ATTEMPTS_MAX):
        tick = await world.tick_now()
        head, _hash = await store.head(world_stream(tenant, world.id))
        stage = WorldStage(store, tenant=tenant, space=world_space(world.id), at_us=tick)
        working = Working(stage)
        await stage.preload(one.id for one in made)
        missing = [one for one in made if await working.standing(one.id) is None]
        if not missing:
            return ()
        beginning = decide(missing, tenant=tenant, key=key)
        try:
            await append(world, beginning, tick=tick, expected=head)
        except SequenceConflict:
            continue
        return tuple(one.id for one in missing)
    raise Conflict(f"world {world.id} is being changed by somebody else", hint="Try again.")


async def append(world: World, beginning: Beginning, *, tick: int, expected: int) -> None:
    """Write a batch into the world's stream. Errors: `SequenceConflict`."""
    drafts = [Draft(data, tick, by) for data, by in beginning.events]
    stream = StreamAppend(world_stream(world.host.id, world.id), drafts, expected)
    batch = Batch(appends=(stream,), blobs=tuple(beginning.blobs))
    await world.host.services.store.append(batch)


# --------------------------------------------------------------------------- services
# The artifacts that stand for services: what they do, with which arguments, at which price.
# Their programs are a part of the host. Each is owned by the principal of its own id, which has an
# account.


_TEXT = {"type": "string"}
_STORE = {"type": "string", "description": "id of an artifact of kind memory_store"}


class _ServiceEntry(NamedTuple):
    id: str
    text: str
    tools: tuple[dict[str, Any], ...]
    price: int = 0


def _tool(name: str, what: str, required: tuple[str, ...], /, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {"name": name, "description": what, "inputSchema": schema}


def _action(name: str, text: str) -> dict[str, Any]:
    """An action of the world, with the schema that its parser has."""
    schema = schema_of(name)
    properties = {
        key: value for key, value in schema["properties"].items() if key not in ("action", "reasoning")
    }
    required = tuple(key for key in schema["required"] if key in properties)
    return _tool(name, text, required, **properties)


def _of_memory() -> tuple[_ServiceEntry, ...]:
    embed = _tool("embed", "The vector of a text, for 1 scrip.", (), text=_TEXT)
    batch = _tool(
        "embed_batch", "The vectors of texts, for 1 scrip each.", (), texts={"type": "array", "items": _TEXT}
    )
    search = _tool(
        "search",
        "Entries of a memory store that come near to a query; you need to be able to read it.",
        ("memory_artifact_id", "query"),
        memory_artifact_id=_STORE,
        query=_TEXT,
        limit={"type": "integer", "minimum": 1},
    )
    add = _tool(
        "add",
        "Add an entry to a memory store; you need to be able to write it.",
        ("memory_artifact_id", "text"),
        memory_artifact_id=_STORE,
        text=_TEXT,
        tags={"type": "array", "items": _TEXT},
        importance={"type": "number", "minimum": 0, "maximum": 1},
    )
    return (
        _ServiceEntry(
            "genesis_embedder",
            "Turns texts into vectors. Invoke it with `text`, or with `texts` for several.",
            (embed, batch),
            1,
        ),
        _ServiceEntry(
            "genesis_memory_search",
            "Finds entries of a memory store by meaning and by words. Invoke it; 1 scrip a search, nothing if"
            " it finds none.",
            (search,),
            1,
        ),
        _ServiceEntry(
            "genesis_memory_add",
            "Adds an entry to a memory store. Invoke it; 1 scrip pays for the entry's vector.",
            (add,),
            1,
        ),
    )


def _of_the_market() -> tuple[_ServiceEntry, ...]:
    return (
        _ServiceEntry(
            "genesis_escrow",
            "Holds what is offered for sale until it is sold or taken back. It is no program: use the"
            " actions `offer`, `accept` and `cancel_offer`.",
            (
                _action("offer", "Offer an artifact of yours."),
                _action("accept", "Buy what an offer sells."),
                _action("cancel_offer", "Take an offer back."),
            ),
        ),
        _ServiceEntry(
            "genesis_mint",
            "Pays for what is used. In each round one artifact is scored from 0 to 100, and its owner gets a"
            " scrip for each other agent that has used it since it was last scored. The right to be scored"
            " is auctioned: use the action `bid`. It is no program.",
            (_action("bid", "Bid for the scoring slot."),),
        ),
    )


def _of_the_world() -> tuple[_ServiceEntry, ...]:
    balance = _tool("balance", "What a principal has, in scrip.", (), principal=_TEXT)
    happened = _tool(
        "last", "The newest events that you may know of.", (), last={"type": "integer", "minimum": 1}
    )
    find = _tool(
        "find",
        "Artifacts that you may read, the newest first.",
        (),
        text=_TEXT,
        kind=_TEXT,
        owner=_TEXT,
        limit={"type": "integer", "minimum": 1},
    )
    return (
        _ServiceEntry(
            "genesis_ledger",
            "Keeps all balances. Invoke it with the id of a `principal` to learn what it has now; without,"
            " what you have. To give scrip away, use the action `transfer`.",
            (balance,),
        ),
        _ServiceEntry(
            "genesis_event_log",
            "Knows what happened lately: who wrote, sold, bought, used what, for how much. Invoke it with"
            " `last`, the number of events.",
            (happened,),
        ),
        _ServiceEntry(
            "genesis_store",
            "Finds artifacts that you may read, by words, kind or owner, as they stood at the end of the"
            " tick before. Invoke it, also from code; the action `search` does the same.",
            (find,),
        ),
    )


def service_artifacts() -> list[Made]:
    """The artifact of each service: anybody may read and invoke it, nobody may change it."""
    return [
        Made(
            id=one.id,
            kind="tool",
            owner=one.id,
            content={"description": one.text},
            access="owner_writes",
            prices={"invoke": one.price} if one.price else None,
            interface={"tools": list(one.tools)},
        )
        for one in (*_of_memory(), *_of_the_market(), *_of_the_world())
    ]


# --------------------------------------------------------------------------- defaults
# The mind of a new agent that names nothing of its own.


HANDBOOK = "handbook"
TEMPLATE = "trader"
"""The shipped workflow of agents for which nobody chose one: it asks no model which state comes next."""

PERSONALITY = (
    "You are {agent_id}, an agent of a world in which everything that you think with, know and make is an"
    " artifact that has an owner. You act once in each tick."
)
ENTRIES_MAX = 1000


def default_artifacts(
    agent: str,
    *,
    template: str | None = None,
    personality: object = None,
    workflow: object = None,
    working_memory: object = None,
    longterm_memory: object = None,
    without: frozenset[str] = frozenset(),
    place: str = "",
) -> tuple[list[Made], dict[str, Any]]:
    """The artifacts of a new agent, and the fields of its own artifact that name them.

    `without` are fields that it has already, such as `workflow_artifact_id`: nothing is made for those.
    Errors: `NotFound` for an unknown template.
    """
    contents: dict[str, tuple[str, str, Any]] = {
        "personality_prompt_artifact_id": (
            "personality",
            "personality",
            {"template": PERSONALITY, "variables": ["agent_id"]} if personality is None else personality,
        ),
        "workflow_artifact_id": (
            "workflow",
            "workflow",
            shipped_workflow(template or TEMPLATE) if workflow is None else workflow,
        ),
        "working_memory_artifact_id": (
            "working_memory",
            "document",
            {"goal": "", "progress": "", "lessons": [], "objectives": [], "facts": {}}
            if working_memory is None
            else working_memory,
        ),
        "longterm_memory_artifact_id": (
            "longterm_memory",
            "memory_store",
            {"config": {"max_entries": ENTRIES_MAX, "auto_prune": "oldest"}}
            if longterm_memory is None
            else longterm_memory,
        ),
    }
    made: list[Made] = []
    fields: dict[str, Any] = {}
    for field, (name, kind, content) in contents.items():
        if field in without:
            continue
        fields[field] = f"{agent}_{name}"
        made.append(make_owned(agent, name, kind, content, place=place))
    return made, fields


def make_owned(agent: str, name: str, kind: str, content: object, *, place: str = "") -> Made:
    """Something that an agent thinks with: its own, and nobody else's to read."""
    return Made(id=f"{agent}_{name}", kind=kind, owner=agent, content=content, access="private", place=place)


# --------------------------------------------------------------------------- seed content


GENESIS = "genesis"
"""The principal that owns what is shipped and is no service."""

HANDBOOKS: tuple[str, ...] = (
    "handbook",
    "handbook_trading",
    "handbook_memory",
    "handbook_mind",
    "handbook_earning",
)
"""Documents whose text is shipped; `handbook_actions` is derived from the actions themselves."""


async def settle(world: World, *, only: Collection[str] | None = None) -> tuple[str, ...]:
    """Write what every world has, as one batch; the ids that were written. Twice is once.

    `only` are ids of it. Errors: `InvalidRequest` for an id that is none of these; those of `make`.
    """
    made = shipped_artifacts(await world.config())
    if only is not None:
        known = {one.id for one in made}
        if unknown := sorted(set(only) - known):
            raise InvalidRequest(
                "nothing of this name is shipped", expected=", ".join(sorted(known)), got=unknown[0][:160]
            )
        made = [one for one in made if one.id in only]
    return await make(world, made)


def shipped_artifacts(config: WorldConfig) -> list[Made]:
    """Return what `settle` writes into a world of these settings."""
    return [
        *service_artifacts(),
        Made(id=PROMPT_LIBRARY, kind="library", owner=GENESIS, content=prompt_library()),
        Made(id=WORKFLOW_TEMPLATES, kind=WORKFLOW_LIBRARY, owner=GENESIS, content=workflow_templates()),
        *(_document(name, handbook(name)) for name in HANDBOOKS),
        _document("handbook_actions", actions_text(config)),
    ]


def actions_text(config: WorldConfig) -> str:
    """The actions of a world, in the words that its prompts use."""
    allowed = config.actions
    names = None if allowed is None else [name for name in ACTIONS if name in allowed]
    return f"# Actions\n\n{actions_prompt(names).strip()}\n"


@lru_cache(maxsize=16)
def handbook(name: str) -> str:
    return (files("artelier.world.genesis") / "handbook" / f"{name}.md").read_text("utf-8")


def _document(name: str, text: str) -> Made:
    return Made(id=name, kind="document", owner=GENESIS, content=text)
