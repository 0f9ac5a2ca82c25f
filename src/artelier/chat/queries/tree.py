"""Reads of the tree of a chat: nodes, pages of the conversation, what a run finds at a node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from dataclasses import dataclass

from artelier.chat.queries.artifacts import Chain, chains, record_seen
from artelier.chat.queries.chats import PAGE_MAX, ChatRow, chat_row, named_text, shown_text, speaker_name
from artelier.chat.rows import COLUMNS, REPLY_HIDDEN, SELECT, WORDS_HIDDEN, Node, node_of, versions_in
from artelier.errors import NotFound
from artelier.log import BlobRef, Store
from artelier.log.contract import Row
from artelier.log.queries import fetch_column
from artelier.operations.events import ReplyPart, Seen
from artelier.ports.model import ChatMessage
from artelier.threads import in_turns, read_beside_loop

NODE_BYTES = 200
"""About the size of a node, or of a version of an artifact, for whoever reads many (guess)."""

SAID_MAX = 2_000
"""Nodes whose words no run has recorded, that a run takes up at once: of longer ones the newest."""
READ_AT_ONCE, SHOWN_AT_ONCE = 500, 10
"""Rows that become nodes, and nodes whose texts are read, before others have their turn: some 3 ms each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """The state that a run finds at a node: all that `session.read` records."""

    settings: BlobRef
    base_run: str = ""
    base_shown: int = 0
    said: tuple[ChatMessage, ...] = ()
    """What comes after the base: messages that no run has recorded in this form."""
    artifacts: tuple[Seen, ...] = ()
    marks: Mapping[str, tuple[int, int]]
    turn: int
    """Number of the turn that is replied in."""
    tokens: int
    """Estimated tokens of the conversation up to the node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnNodes:
    """A turn as one branch shows it."""

    number: int
    asked: Node
    """Its first node, which has the person's words."""
    selected: Node
    variants: tuple[Node, ...]
    """All there are, in order; one without a reply included. Empty for a turn that was only asked."""


# Nodes


async def node_row(store: Store, chat: int, node: int) -> Node:
    """Errors: `NotFound`."""
    rows = await store.query(f"{SELECT} WHERE n.chat = ? AND n.node = ?", (chat, node))
    if not rows:
        raise NotFound(f"the chat has no node {node}")
    return node_of(rows[0])


async def node_of_run(store: Store, chat: int, run: str) -> Node | None:
    """The newest node that a run has made; None if it has made none, or goes on with another's."""
    rows = await store.query(
        f"{SELECT} WHERE n.chat = ? AND n.run = ? ORDER BY n.node DESC LIMIT 1", (chat, run)
    )
    return node_of(rows[0]) if rows else None


_NODES = SELECT.partition(" FROM ")[0]
_UP = (
    "WITH RECURSIVE up(node, parent, depth) AS ("
    "SELECT node, parent, 1 FROM chat_nodes WHERE chat = ? AND node = ?"
    " UNION ALL SELECT n.node, n.parent, up.depth + 1 FROM up"
    " JOIN chat_nodes n ON n.chat = ? AND n.node = up.parent WHERE up.depth < ?) "
)
STEPS_MAX = 500
"""Nodes that one query goes up: others have their turn after each."""


async def _line(store: Store, chat: int, head: int, *, most: int) -> AsyncGenerator[list[tuple[int, int]]]:
    """Yield the nodes on the way up from a head and itself, each with its parent, some at a time."""
    while head and most > 0:
        steps = min(most, STEPS_MAX)
        found = await store.query(
            f"{_UP}SELECT node, parent FROM up ORDER BY depth", (chat, head, chat, steps)
        )
        await asyncio.sleep(0)
        if not found:
            return  # the chat was deleted meanwhile
        yield [(node, parent) for node, parent in found]
        head, most = found[-1][1], most - steps


async def nodes_above(store: Store, chat: int, head: int) -> list[int]:
    """Return the nodes of the conversation that ends at a head, the newest first. Cost: O(turns)."""
    return [node async for some in _line(store, chat, head, most=1 << 60) for node, _ in some]


async def _ancestor(store: Store, chat: int, head: int, number: int) -> int:
    """Return the node of the turn of that number above a head, the head itself if that is not beyond it.

    0 if there is none. Along a path each turn's number is one higher. Cost: O(turns after it).
    """
    most = (await node_row(store, chat, head)).number - number if head else 0
    async for some in _line(store, chat, head, most=most):
        head = some[-1][1]
    return head


async def node_at(store: Store, chat: int, head: int, number: int) -> Node:
    """The node of the turn of that number above a head. Cost: O(turns after it). Errors: `NotFound`."""
    node = await _ancestor(store, chat, head, number)
    found = await node_row(store, chat, node) if node else None
    if found is None or found.number != number:
        raise NotFound(f"the branch has no turn {number}", hint="session.turns() shows those it has.")
    if found.deleted:
        raise NotFound(f"turn {number} was deleted", hint="session.turns() shows those there are.")
    return found


async def variant_row(store: Store, node: Node, variant: int) -> Node:
    """Another variant of a node's turn. Errors: `NotFound` that says how many there are, or that none is."""
    rows = await store.query(
        f"{SELECT} WHERE n.chat = ? AND n.turn = ? AND n.variant = ? AND n.variant > 0 AND n.deleted = 0",
        (node.chat, node.turn, variant),
    )
    if not rows:
        known = await store.query(
            "SELECT max(variant) FROM chat_nodes WHERE chat = ? AND turn = ?", (node.chat, node.turn)
        )
        if not known[0][0]:
            raise NotFound(
                f"turn {node.number} has no variant {variant}: it was asked, and has no reply yet",
                hint="Wait for its run, resume it, or regenerate the turn.",
            )
        raise NotFound(f"turn {node.number} has no variant {variant}", expected=f"1 to {known[0][0]}")
    return node_of(rows[0])


async def newest_below(store: Store, chat: int, node: int) -> int:
    """Return where the conversation went on last after a node, with a reply; the node itself if nowhere.

    Cost: O(nodes below it), beside the event loop.
    """
    rows = await store.survey(
        f"{_BELOW.format(column='node')}SELECT max(n.node) FROM below JOIN chat_nodes n"
        " ON n.chat = ? AND n.node = below.node WHERE below.is_first = 1 OR n.parts <> '[]'",
        (chat, node, chat, chat),
    )
    return rows[0][0] or node


@dataclass(frozen=True, slots=True, kw_only=True)
class Doomed:
    """The nodes that a deletion takes, and those that stay and were said after them."""

    nodes: tuple[Node, ...]
    is_turns: bool
    """True if whole turns go, with the person's words."""
    below: frozenset[int] = frozenset()
    runs_below: tuple[str, ...] = ()
    """The runs that made the nodes below, in order."""

    @property
    def count(self) -> int:
        """Number of the nodes that were still there."""
        return sum(not node.deleted for node in self.nodes)


_BELOW = (
    "WITH RECURSIVE below(node, is_first) AS (SELECT node, 1 FROM chat_nodes WHERE chat = ? AND {column} = ?"
    " UNION SELECT n.node, 0 FROM below JOIN chat_nodes n ON n.chat = ? AND n.parent = below.node) "
)


async def doomed_nodes(store: Store, chat: int, column: str, number: int) -> Doomed:
    """Return the nodes of a turn, or one node. `column`: `turn` or `node`.

    Cost: O(nodes below), beside the loop.
    """
    rows = await store.query(f"{SELECT} WHERE n.chat = ? AND n.{column} = ? ORDER BY n.node", (chat, number))
    below = await store.survey(
        f"{_BELOW.format(column=column)}SELECT n.node, n.run FROM below JOIN chat_nodes n"
        " ON n.chat = ? AND n.node = below.node WHERE below.is_first = 0",
        (chat, number, chat, chat),
    )
    return Doomed(
        nodes=tuple(node_of(row) for row in rows),
        is_turns=column == "turn",
        below=frozenset(node for node, _ in below),
        runs_below=tuple(sorted({run for _, run in below if run})),
    )


async def nodes_alone(store: Store, chat: int, branch: str) -> Doomed:
    """Return the nodes of the turns that a branch shows and no other.

    Cost: O(turns of the branches), beside the loop.
    """
    rows = await store.survey(
        "WITH RECURSIVE up(node, parent, turn, own) AS (SELECT n.node, n.parent, n.turn,"
        " iif(b.name = ?, 1, 0) FROM chat_branches b JOIN chat_nodes n ON n.chat = b.chat AND n.node = b.head"
        " WHERE b.chat = ?"
        " UNION SELECT n.node, n.parent, n.turn, up.own FROM up JOIN chat_nodes n ON n.chat = ?"
        " AND n.node = up.parent)"
        " SELECT turn FROM up GROUP BY turn HAVING min(own) = 1 ORDER BY turn LIMIT 1",
        (branch, chat, chat),
    )
    if not rows:
        return Doomed(nodes=(), is_turns=True)
    found = await store.survey(
        f"{_BELOW.format(column='turn')}{_NODES} FROM chat_nodes n WHERE n.chat = ?"
        " AND n.node IN (SELECT node FROM below) ORDER BY n.node",
        (chat, rows[0][0], chat, chat),
    )
    nodes = [node_of(row) async for row in in_turns(found, at_once=READ_AT_ONCE)]
    return Doomed(nodes=tuple(nodes), is_turns=True)


async def runs_unshown(store: Store, chat: int) -> list[str]:
    """Return the runs of replies that are there, in turns that no branch shows, in order.

    Cost: O(nodes of the chat), beside the loop.
    """
    rows = await store.survey(
        "WITH RECURSIVE up(node, parent, turn) AS (SELECT n.node, n.parent, n.turn FROM chat_branches b"
        " JOIN chat_nodes n ON n.chat = b.chat AND n.node = b.head WHERE b.chat = ?"
        " UNION SELECT n.node, n.parent, n.turn FROM up JOIN chat_nodes n ON n.chat = ?"
        " AND n.node = up.parent)"
        " SELECT DISTINCT run FROM chat_nodes WHERE chat = ? AND run <> '' AND variant > 0 AND deleted = 0"
        " AND turn NOT IN (SELECT turn FROM up) ORDER BY run",
        (chat, chat, chat),
    )
    return [run for (run,) in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingVersions:
    """Versions of artifacts once some nodes are gone."""

    tags: frozenset[tuple[str, str]]
    """Run and tag of those that nodes stand on which stay."""
    left: tuple[BlobRef, ...]
    """Values of runs of which none is stood on any more."""


async def standing_versions(store: Store, chat: int, doomed: Doomed) -> StandingVersions:
    """Return which versions are needed once some nodes are gone, and which are not.

    Cost: O(nodes and versions of the chat), beside the loop; next to nothing in a chat without artifacts.
    """
    made = await store.survey("SELECT id, prev, run, tag, value FROM chat_art WHERE chat = ?", (chat,))
    if not made:
        return StandingVersions(tags=frozenset(), left=())
    rows = await store.survey("SELECT node, other, state, deleted FROM chat_nodes WHERE chat = ?", (chat,))
    gone = {node.node for node in doomed.nodes}
    return await read_beside_loop((len(rows) + len(made)) * NODE_BYTES, _find_standing, rows, made, gone)


def _find_standing(rows: Sequence[Row], made: Sequence[Row], gone: Collection[int]) -> StandingVersions:
    others, states = {row[0]: row[1] for row in rows}, {row[0]: row[2] for row in rows}
    waiting = [row[0] for row in rows if row[0] not in gone and not row[3]]
    heads: set[int] = set()
    seen: set[int] = set()
    while waiting:
        node = waiting.pop()
        if node in seen or node not in states:
            continue
        seen.add(node)
        heads.update(versions_in(states[node]))
        waiting.append(others[node])
    arts = {id_: (prev, run, tag, value) for id_, prev, run, tag, value in made}
    found: set[int] = set()
    while heads:
        id_ = heads.pop()
        if id_ in arts and id_ not in found:
            found.add(id_)
            heads.add(arts[id_][0])
    needed = {arts[id_][1] for id_ in found}
    return StandingVersions(
        tags=frozenset((arts[id_][1], arts[id_][2]) for id_ in found),
        left=tuple(BlobRef(value) for _, run, _, value in arts.values() if run not in needed),
    )


async def profiles_used(store: Store, chat: int) -> list[str]:
    """Return the profiles that the turns of a chat worked with, as `id@version`."""
    return await fetch_column(
        store, "SELECT DISTINCT profile FROM chat_nodes WHERE chat = ? AND profile <> ''", (chat,)
    )


async def runs_above(store: Store, chat: int, node: int, *, nodes_max: int) -> list[str]:
    """Return the runs that made a node and those above it, the nearest first; `nodes_max` nodes in all."""
    return await fetch_column(
        store,
        "WITH RECURSIVE up(node, parent, run, depth) AS (SELECT node, parent, run, 1"
        " FROM chat_nodes WHERE chat = ? AND node = ? UNION ALL SELECT n.node, n.parent, n.run,"
        " up.depth + 1 FROM up JOIN chat_nodes n ON n.chat = ? AND n.node = up.parent"
        " WHERE up.depth < ?) SELECT run FROM up ORDER BY depth",
        (chat, node, chat, nodes_max),
    )


async def path(
    store: Store,
    chat: int,
    head: int,
    *,
    after: int | None = None,
    before: int | None = None,
    limit: int = 50,
) -> list[TurnNodes]:
    """A page of the conversation that ends at a head, oldest turn first; deleted turns are left out.

    With `after`, the turns of higher number, the first `limit` of them; else the newest `limit`, or those
    next before the turn `before`. Cost: O(turns from the head to the end of the page).
    """
    limit, found = max(1, min(limit, PAGE_MAX)), list[TurnNodes]()
    if after is not None:
        low, end = max(after, -1), 0
        while end != head and len(found) < limit:
            end = await _ancestor(store, chat, head, low + limit)
            found += [one for one in (await _up(store, chat, end, most=limit))[0] if one.number > low]
            low += limit
        return found[:limit]
    if before is not None:
        head = await _ancestor(store, chat, head, before - 1)
    while head and len(found) < limit:
        some, head = await _up(store, chat, head, most=limit)
        found = [*some, *found]
    return found[-limit:]


async def _up(store: Store, chat: int, head: int, *, most: int) -> tuple[list[TurnNodes], int]:
    """Return the turns of so many nodes up to a head, oldest first, and the node above them; 0 for none."""
    nodes = [one async for some in _line(store, chat, head, most=most) for one in some]
    turns = await turns_of(store, chat, [node for node, _ in reversed(nodes)])
    return turns, nodes[-1][1] if nodes else 0


async def turns_of(store: Store, chat: int, nodes: Sequence[int]) -> list[TurnNodes]:
    """Return the turns of some nodes of one path, in their order; deleted ones are left out."""
    by_node = {one.node: one for one in await _rows(store, chat, "node", nodes) if not one.deleted}
    selected = [by_node[node] for node in nodes if node in by_node]
    of_turn: dict[int, list[Node]] = {one.turn: [] for one in selected}
    for one in await _rows(store, chat, "turn", tuple(of_turn)):
        of_turn[one.turn].append(one)
    return [_turn(one, of_turn[one.turn]) for one in selected]


async def _rows(store: Store, chat: int, column: str, numbers: Sequence[int]) -> list[Node]:
    found: list[Node] = []
    # Each order is that of an index: with another, SQLite reads the whole chat.
    order = {"node": "n.node", "turn": "n.turn, n.variant"}[column]
    for start in range(0, len(numbers), 200):
        some = numbers[start : start + 200]
        rows = await store.query(
            f"{SELECT} WHERE n.chat = ? AND n.{column} IN ({', '.join('?' * len(some))}) ORDER BY {order}",
            (chat, *some),
        )
        found += map(node_of, rows)
    return found


def _turn(selected: Node, nodes: list[Node]) -> TurnNodes:
    asked = next(node for node in nodes if node.node == selected.turn)
    variants = tuple(node for node in nodes if node.variant and not node.deleted)
    return TurnNodes(number=selected.number, asked=asked, selected=selected, variants=variants)


# What a run finds


async def stand(
    store: Store,
    tenant: str,
    chat: str,
    *,
    node: int,
    scope: str,
    tags: Collection[str] | None = None,
    trigger: str = "generate",
    now_us: int,
    is_named: bool = False,
) -> NodeState:
    """Return what a run finds that goes on from a node, with the artifacts of a scope.

    `tags`: which artifacts; None for all. `now_us`: against which age is counted. `is_named`: messages begin
    with the name of who said them. Errors: `NotFound`.
    Cost: O(what is said since the newest run that recorded it, and what artifacts retain).
    """
    row = await chat_row(store, tenant, chat)
    if not node:
        return NodeState(settings=row.settings, marks={}, turn=1, tokens=0)
    at = await node_row(store, row.id, node)
    base, said = await _said_since(store, row, at, is_named=is_named)
    own = await in_scope(store, at, scope)
    found: list[Seen] = []
    marks: Mapping[str, tuple[int, int]] = {}
    if own is not None and scope:
        marks = own.decode_marks()
        found = [record_seen(one, now_us=now_us) for one in await _chains(store, own, tags)]
    return NodeState(
        settings=row.settings,
        base_run=base.base if base else "",
        base_shown=base.shown if base else 0,
        said=said,
        artifacts=tuple(found),
        marks=marks,
        turn=at.number + (trigger != "continue"),
        tokens=at.tokens,
    )


async def in_scope(store: Store, node: Node | None, scope: str) -> Node | None:
    """The nearest node above, itself included, whose state is that of a scope."""
    if node is None:
        return None
    rows = await store.query(
        "WITH RECURSIVE up(node, scope, other) AS (SELECT CAST(? AS INTEGER),"
        " CAST(? AS TEXT), CAST(? AS INTEGER) UNION ALL"
        " SELECT n.node, n.scope, n.other FROM up JOIN chat_nodes n"
        f" ON n.chat = ? AND n.node = up.other WHERE up.scope <> ?) {_NODES} FROM up"
        " JOIN chat_nodes n ON n.chat = ? AND n.node = up.node WHERE up.scope = ?",
        (node.node, node.scope, node.other, node.chat, scope, node.chat, scope),
    )
    return node_of(rows[0]) if rows else None


async def state_chains(
    store: Store, chat: int, *, head: int, scope: str, tags: Collection[str] | None = None
) -> list[Chain]:
    """Artifacts of a scope at a node, with what they retain by count; by tag."""
    if not head or not scope:
        return []
    own = await in_scope(store, await node_row(store, chat, head), scope)
    return [] if own is None else await _chains(store, own, tags)


async def _chains(store: Store, node: Node, tags: Collection[str] | None) -> list[Chain]:
    versions = node.versions()
    wanted = [id_ for tag, id_ in versions.items() if tags is None or tag in tags]
    return await chains(store, node.chat, wanted)


_SAID_UP = (
    "WITH RECURSIVE up(node, parent, shown, depth) AS ("
    "SELECT node, parent, shown, 1 FROM chat_nodes WHERE chat = ? AND node = ?"
    " UNION ALL SELECT n.node, n.parent, n.shown, up.depth + 1 FROM up"
    " JOIN chat_nodes n ON n.chat = ? AND n.node = up.parent"
    " WHERE up.shown = 0 AND up.depth < ?) "
)


async def _said_since(
    store: Store, chat: ChatRow, node: Node, *, is_named: bool
) -> tuple[Node | None, tuple[ChatMessage, ...]]:
    """The nearest node whose conversation a run has recorded, and what was said after that."""
    words = ", ".join(f"n.{name}" for name in COLUMNS)
    rows = await store.query(
        f"{_SAID_UP}SELECT {words}, t.user, t.hidden FROM up JOIN chat_nodes n ON n.chat = ?"
        " AND n.node = up.node JOIN chat_nodes t ON t.chat = ? AND t.node = n.turn"
        " ORDER BY up.depth DESC",
        (chat.id, node.node, chat.id, SAID_MAX, chat.id, chat.id),
    )
    base: Node | None = None
    said: list[ChatMessage] = []
    async for *columns, asked, asked_hidden in in_turns(rows, at_once=SHOWN_AT_ONCE):
        found = node_of(tuple(columns))
        user = found.user_parts() or _parts_of(found, asked)
        user = () if found.deleted or asked_hidden & WORDS_HIDDEN else user
        parts = () if found.hidden & REPLY_HIDDEN else found.reply_parts()
        if found.shown:  # only the topmost one can have a base
            base = found
            user = user if found.apart == 2 else ()
            parts = parts if found.apart else ()
        for role, these in (("user", user), ("assistant", parts)):
            if text := await shown_text(store, chat.tenant, these, prompt=True):
                name = await speaker_name(store, chat.tenant, these) if is_named else ""
                content = named_text(name, text) if name else text
                said.append(ChatMessage(role=role, content=content))  # pyright: ignore[reportArgumentType] - one of two literals
    return base, tuple(said)


def _parts_of(node: Node, asked: str) -> tuple[ReplyPart, ...]:
    """The person's words of a turn as its first node has them."""
    import dataclasses

    return dataclasses.replace(node, user=asked).user_parts()
