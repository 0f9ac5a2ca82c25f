"""Edits of a chat as its view keeps them: messages revised, hidden and deleted, branches and chats deleted.

A deleted node keeps its place in the tree, without words, so that the turns after it stand where they stood.
What a run has recorded of a conversation is not changed by an edit: nodes from there on forget which run
recorded them, and the next prompt is made of the messages themselves.
"""

from __future__ import annotations

from typing import cast

from artelier.chat.rows import nodes
from artelier.chat.rows.nodes import (
    MAIN,
    REPLY_HIDDEN,
    WORDS_HIDDEN,
    ChatConflict,
    Node,
    branch_of,
    check_free,
    check_open,
    encoded_parts,
)
from artelier.errors import InvalidEvent, NotFound
from artelier.kernel.queries.runs import is_over
from artelier.log import Applied, Tx
from artelier.operations import events as ev

ROLES = {"user": WORDS_HIDDEN, "assistant": REPLY_HIDDEN}

_BELOW = (
    "WITH RECURSIVE below(node) AS (SELECT node FROM chat_nodes WHERE chat = ? AND {first} = ?"
    " UNION SELECT n.node FROM chat_nodes n JOIN below ON n.chat = ? AND n.parent = below.node) "
)
"""Some nodes and all that were said after them."""


def revise_message(event: Applied, tx: Tx) -> None:
    data = cast(ev.MessageRevised, event.data)
    node = _message(event, tx, data)
    said = nodes.load(tx, event, node.turn).user_parts() if data.role == "user" else node.reply_parts()
    speaker = next((part.speaker for part in said if part.speaker is not None), None)
    parts = encoded_parts((ev.ReplyPart(text=data.text, speaker=speaker),))
    if data.role == "user":
        tx.execute(
            "UPDATE chat_nodes SET user = ? WHERE chat = ? AND node = ?", (parts, node.chat, node.turn)
        )
        if node.node != node.turn:
            _set(tx, "user", "[]", node.chat, node.node)  # what an operation had made of the old words
    else:
        tx.execute(
            "UPDATE chat_nodes SET parts = ? WHERE chat = ? AND node = ?", (parts, node.chat, node.node)
        )
    _forget_recorded(tx, node, data.role)


def _set(tx: Tx, column: str, value: str, chat: int, node: int) -> None:
    tx.execute(f"UPDATE chat_nodes SET {column} = ? WHERE chat = ? AND node = ?", (value, chat, node))


def hide_message(event: Applied, tx: Tx) -> None:
    data = cast(ev.MessageHidden, event.data)
    node = _message(event, tx, data)
    bit, at = ROLES[data.role], node.turn if data.role == "user" else node.node
    change = "hidden | ?" if data.hidden else "hidden & ~?"
    tx.execute(f"UPDATE chat_nodes SET hidden = {change} WHERE chat = ? AND node = ?", (bit, node.chat, at))
    _forget_recorded(tx, node, data.role)


def _message(event: Applied, tx: Tx, data: ev.MessageRevised | ev.MessageHidden) -> Node:
    """Errors: `NotFound`, `Conflict`, `InvalidEvent`."""
    if data.role not in ROLES:
        raise InvalidEvent("role of a message", expected="user or assistant", got=data.role)
    branch_of(event, tx, data.branch)
    node = _load_present(event, tx, data.node)
    first = nodes.load(tx, event, node.turn)
    has_words = bool(node.user_parts() or first.user_parts())
    if not (has_words if data.role == "user" else node.has_reply):
        raise NotFound(f"turn {node.number} of chat {event.stream.id!r} has no message of the {data.role}")
    _check_idle(event, tx, "turn" if data.role == "user" else "node", node)
    return node


def _load_present(event: Applied, tx: Tx, number: int) -> Node:
    node = nodes.load(tx, event, number)
    if node.deleted:
        raise NotFound(f"turn {node.number} of chat {event.stream.id!r} was deleted")
    return node


def _check_idle(event: Applied, tx: Tx, first: str, node: Node) -> None:
    """Errors: `Conflict` while a run is at work that goes on from what is edited."""
    rows = tx.execute(
        f"{_BELOW.format(first=first)}SELECT b.name, b.run FROM chat_branches b"
        " JOIN below ON b.head = below.node WHERE b.chat = ? AND b.run <> ''",
        (node.chat, getattr(node, first), node.chat, node.chat),
    )
    for name, run in rows:
        if not is_over(tx, event.stream.tenant, run):
            raise ChatConflict(
                f"branch {name!r} of chat {event.stream.id!r} is busy: run {run} has not ended",
                hint="Wait for it, or cancel it, and edit then.",
                run=run,
                busy=True,
            )


def _forget_recorded(tx: Tx, node: Node, role: str) -> None:
    """From a changed message on, prompts are made of the messages as they are now."""
    first = "turn" if role == "user" else "node"
    tx.execute(
        f"{_BELOW.format(first=first)}UPDATE chat_nodes SET base = '', shown = 0, apart = 0"
        " WHERE chat = ? AND node IN (SELECT node FROM below)",
        (node.chat, getattr(node, first), node.chat, node.chat),
    )


# Deletions


_EMPTY = "user = '[]', parts = '[]', hidden = 0, deleted = 1, base = '', shown = 0, apart = 0"


def delete_turn(event: Applied, tx: Tx) -> None:
    data = cast(ev.TurnDeleted, event.data)
    branch_of(event, tx, data.branch)
    first = nodes.load(tx, event, data.turn)
    if first.node != first.turn:
        raise InvalidEvent("a turn is named by its first node", expected=first.turn, got=first.node)
    if not tx.one(
        "SELECT 1 FROM chat_nodes WHERE chat = ? AND turn = ? AND deleted = 0", (first.chat, first.turn)
    ):
        raise NotFound(f"turn {first.number} of chat {event.stream.id!r} was deleted")
    _check_idle(event, tx, "turn", first)
    _forget_recorded(tx, first, "user")
    _move_heads(event, tx, "turn", first.turn, head=_present_above(event, tx, first.parent))
    tx.execute(f"UPDATE chat_nodes SET {_EMPTY} WHERE chat = ? AND turn = ?", (first.chat, first.turn))


def delete_variant(event: Applied, tx: Tx) -> None:
    data = cast(ev.VariantDeleted, event.data)
    branch_of(event, tx, data.branch)
    node = _load_present(event, tx, data.node)
    if not node.variant:
        raise NotFound(f"turn {node.number} of chat {event.stream.id!r} has no reply to delete")
    _check_idle(event, tx, "node", node)
    if tx.one(
        f"{_BELOW.format(first='parent')}SELECT 1 FROM below JOIN chat_nodes n ON n.chat = ?"
        " AND n.node = below.node WHERE n.deleted = 0 LIMIT 1",
        (node.chat, node.node, node.chat, node.chat),
    ):
        raise ChatConflict(
            f"other turns of chat {event.stream.id!r} were said after this reply",
            hint="Delete the turn (the turns after it stay), or revise the reply.",
        )
    other = tx.one(
        "SELECT node FROM chat_nodes WHERE chat = ? AND turn = ? AND node <> ? AND deleted = 0"
        " AND parts <> '[]' ORDER BY abs(variant - ?), variant LIMIT 1",
        (node.chat, node.turn, node.node, node.variant),
    )
    first = nodes.load(tx, event, node.turn)
    if other is not None:
        head = other[0]
    elif first.user_parts():
        head = first.node
    else:
        head = _present_above(event, tx, node.parent)
    if data.erases:
        _forget_recorded(tx, node, "user")
    _move_heads(event, tx, "node", node.node, head=head)
    tx.execute(f"UPDATE chat_nodes SET {_EMPTY} WHERE chat = ? AND node = ?", (node.chat, node.node))


def _present_above(event: Applied, tx: Tx, node: int) -> int:
    """The nearest node from here up that is not deleted; 0 for the beginning."""
    while node:
        one = nodes.load(tx, event, node)
        if not one.deleted:
            return node
        node = one.parent
    return 0


def _move_heads(event: Applied, tx: Tx, column: str, number: int, *, head: int) -> None:
    """Put the branches that end where something is deleted elsewhere; they wait for no run from then on."""
    tx.execute(
        "UPDATE chat_branches SET head = ?, run = '', trigger = '', job = '', made = 0 WHERE chat = ?"
        f" AND head IN (SELECT node FROM chat_nodes WHERE chat = ? AND {column} = ?)",
        (head, event.stream_id, event.stream_id, number),
    )


def delete_branch(event: Applied, tx: Tx) -> None:
    data = cast(ev.BranchDeleted, event.data)
    branch = branch_of(event, tx, data.branch)
    if data.branch == MAIN:
        raise ChatConflict(
            f"the branch {MAIN!r} of chat {event.stream.id!r} stays as long as the chat",
            hint="Delete turns of it, or the chat.",
        )
    check_free(event, tx, branch)
    tx.execute("DELETE FROM chat_branches WHERE chat = ? AND name = ?", (event.stream_id, data.branch))
    tx.execute("DELETE FROM chat_sessions WHERE chat = ? AND branch = ?", (event.stream_id, data.branch))
    top = _first_alone(event, tx, branch.head)
    if top is not None:
        tx.execute(
            f"{_BELOW.format(first='turn')}UPDATE chat_nodes SET {_EMPTY}"
            " WHERE chat = ? AND node IN (SELECT node FROM below)",
            (event.stream_id, top.turn, event.stream_id, event.stream_id),
        )


def _first_alone(event: Applied, tx: Tx, head: int) -> Node | None:
    """The first turn of a path that no branch shows any more. Cost: O(turns of the branches)."""
    kept = {
        row[0]
        for row in tx.execute(
            "WITH RECURSIVE up(node, parent, turn) AS (SELECT n.node, n.parent, n.turn FROM chat_branches b"
            " JOIN chat_nodes n ON n.chat = b.chat AND n.node = b.head WHERE b.chat = ?"
            " UNION SELECT n.node, n.parent, n.turn FROM up JOIN chat_nodes n ON n.chat = ?"
            " AND n.node = up.parent) SELECT turn FROM up",
            (event.stream_id, event.stream_id),
        )
    }
    found: Node | None = None
    while head:
        node = nodes.load(tx, event, head)
        if node.turn in kept:
            break
        found, head = node, node.parent
    return found


def delete_chat(event: Applied, tx: Tx) -> None:
    check_open(event, tx)
    for (name,) in tx.execute("SELECT name FROM chat_branches WHERE chat = ?", (event.stream_id,)):
        check_free(event, tx, branch_of(event, tx, name))
    for table in ("chat_branches", "chat_nodes", "chat_sessions", "chat_scopes", "chat_art"):
        tx.execute(f"DELETE FROM {table} WHERE chat = ?", (event.stream_id,))
    tx.execute("UPDATE chats SET deleted = 1, title = '', branches = 0 WHERE id = ?", (event.stream_id,))


def label_chat(event: Applied, tx: Tx) -> None:
    data = cast(ev.ChatLabeled, event.data)
    check_open(event, tx)
    tx.execute(
        "UPDATE chats SET title = ?, archived = ? WHERE id = ?",
        (data.title or "", int(data.archived), event.stream_id),
    )
