"""The artifacts that stand for services: what they do, with which arguments, at which price.

Their programs are a part of the host. Each is owned by the principal of its own id, which has an account.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from artelier.world.actions.schema import schema_of
from artelier.world.genesis.batch_builder import Made

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
