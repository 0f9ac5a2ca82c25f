"""The views of chats: branches, the tree of turns and variants, sessions, and versions of artifacts.

Handlers refuse what must not stand in a chat's stream, and with it the whole batch. What they keep is a fold
of the events; `queries/` reads it. Keys are made of the stream's row id and of seqs within it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, cast

from artelier.chat import rows
from artelier.chat.rows import (
    BRANCHES_MAX,
    ENDS,
    MAIN,
    NODES_PER_EVENT,
    VARIANTS_MAX,
    VERSIONS_PER_EVENT,
    ChatConflict,
    Node,
    TurnStatus,
    branch_of,
    check_free,
    check_open,
    check_settled,
    encoded_map,
    encoded_parts,
    insert_branch,
    limit_parts,
    move,
    take_run,
    too_many,
    use_scope,
    waiting,
)
from artelier.errors import InvalidEvent
from artelier.kernel import kernel_view
from artelier.kernel.export.writer import KINDS
from artelier.kernel.queries.content import newest_message_in
from artelier.kernel.view import step_completed
from artelier.log import Applied, Tx, View
from artelier.operations import events as ev

CHANGES_MAX = 1024
"""Of one event, more than a profile has operations: also what `VERSIONS_PER_EVENT` has numbers for."""
GREETINGS_MAX = 200
CONVERSATION = "chat"
"""The conversation of each run that holds what is said in the chat."""


operations_view = View(
    name="operations",
    version=2,
    tables=("chats", "chat_branches", "chat_nodes", "chat_sessions", "chat_scopes", "chat_art"),
    schema=(
        """CREATE TABLE chats(
            id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, chat TEXT NOT NULL, settings TEXT NOT NULL,
            runs INTEGER NOT NULL, branches INTEGER NOT NULL, opened_us INTEGER NOT NULL,
            changed_us INTEGER NOT NULL, title TEXT NOT NULL, archived INTEGER NOT NULL,
            deleted INTEGER NOT NULL, UNIQUE(tenant, chat)) STRICT""",
        """CREATE TABLE chat_branches(
            chat INTEGER NOT NULL, name TEXT NOT NULL, head INTEGER NOT NULL, run TEXT NOT NULL,
            trigger TEXT NOT NULL, job TEXT NOT NULL, made INTEGER NOT NULL, origin TEXT NOT NULL,
            n INTEGER NOT NULL, at_us INTEGER NOT NULL, PRIMARY KEY(chat, name)) STRICT, WITHOUT ROWID""",
        "CREATE INDEX chat_branches_by_head ON chat_branches(chat, head)",
        *rows.SCHEMA,
        # Which session of a profile a branch works with, if it is not the profile's own.
        """CREATE TABLE chat_sessions(
            chat INTEGER NOT NULL, branch TEXT NOT NULL, profile TEXT NOT NULL,
            session TEXT NOT NULL, standard TEXT NOT NULL,
            PRIMARY KEY(chat, branch, profile)) STRICT, WITHOUT ROWID""",
        # Every session of a profile that a run of the chat, or a person, has begun.
        """CREATE TABLE chat_scopes(
            chat INTEGER NOT NULL, profile TEXT NOT NULL, session TEXT NOT NULL,
            runs INTEGER NOT NULL, begun_us INTEGER NOT NULL, used_us INTEGER NOT NULL,
            PRIMARY KEY(chat, profile, session)) STRICT, WITHOUT ROWID""",
        """CREATE TABLE chat_art(
            chat INTEGER NOT NULL, id INTEGER NOT NULL, scope TEXT NOT NULL, tag TEXT NOT NULL,
            node INTEGER NOT NULL, version INTEGER NOT NULL, prev INTEGER NOT NULL,
            value TEXT NOT NULL, append INTEGER NOT NULL, usage TEXT NOT NULL,
            semantics TEXT NOT NULL, versions_max INTEGER NOT NULL, ttl_s INTEGER NOT NULL,
            operation TEXT NOT NULL, profile TEXT NOT NULL, run TEXT NOT NULL, at_us INTEGER NOT NULL,
            PRIMARY KEY(chat, id)) STRICT, WITHOUT ROWID""",
    ),
    indexes=rows.INDEXES,
)

RECEIPTS = (
    ev.PhaseChanged,
    ev.SessionRead,
    ev.OperationStarted,
    ev.OperationFinished,
    ev.CommitReported,
    ev.LoreActivated,
)
kernel_view.on(*RECEIPTS)(step_completed)
KINDS["run"].update(kind.KIND for kind in RECEIPTS)


# Chats and branches


@operations_view.on(ev.ChatOpened)
def _chat_opened(event: Applied, tx: Tx) -> None:
    data = cast(ev.ChatOpened, event.data)
    if event.seq != 1:
        raise ChatConflict(f"chat {event.stream.id!r} is open already")
    if len(data.greetings) > GREETINGS_MAX:
        raise too_many("greetings", GREETINGS_MAX, len(data.greetings))
    tx.execute(
        "INSERT INTO chats VALUES (?, ?, ?, ?, 0, 1, ?, ?, '', 0, 0)",
        (event.stream_id, event.stream.tenant, event.stream.id, data.settings, event.at_us, event.at_us),
    )
    turn = _turn_of_replies(event, tx, data.greetings, index=0, parent=None, number=0, speaker=data.speaker)
    head = turn[0] if turn else 0
    insert_branch(event, tx, MAIN, head=head, origin="", n=1)


@operations_view.on(ev.ChatChanged)
def _chat_changed(event: Applied, tx: Tx) -> None:
    check_open(event, tx)
    tx.execute(
        "UPDATE chats SET settings = ?, changed_us = ? WHERE id = ?",
        (cast(ev.ChatChanged, event.data).settings, event.at_us, event.stream_id),
    )


@operations_view.on(ev.BranchMade)
def _branch_made(event: Applied, tx: Tx) -> None:
    data = cast(ev.BranchMade, event.data)
    branch_of(event, tx, data.origin)
    if data.node:
        check_settled(event, tx, rows.load(tx, event, data.node))
    if tx.one("SELECT 1 FROM chat_branches WHERE chat = ? AND name = ?", (event.stream_id, data.branch)):
        raise ChatConflict(
            f"chat {event.stream.id!r} has a branch {data.branch!r} already",
            hint="Give the new branch another name.",
        )
    row = tx.one("SELECT branches FROM chats WHERE id = ?", (event.stream_id,))
    n = (row[0] if row else 0) + 1
    if n > BRANCHES_MAX:
        raise too_many("branches of one chat", BRANCHES_MAX, n)
    tx.execute("UPDATE chats SET branches = ? WHERE id = ?", (n, event.stream_id))
    insert_branch(event, tx, data.branch, head=data.node, origin=data.origin, n=n)
    tx.execute(
        "INSERT INTO chat_sessions SELECT chat, ?, profile, session, standard FROM chat_sessions"
        " WHERE chat = ? AND branch = ?",
        (data.branch, event.stream_id, data.origin),
    )


@operations_view.on(ev.BranchRewound, ev.VariantSelected)
def _head_moved(event: Applied, tx: Tx) -> None:
    data = cast(ev.BranchRewound | ev.VariantSelected, event.data)
    check_free(event, tx, branch_of(event, tx, data.branch))
    if data.node or isinstance(data, ev.VariantSelected):
        check_settled(event, tx, rows.load(tx, event, data.node))
    move(event, tx, data.branch, head=data.node)


@operations_view.on(ev.SessionSet)
def _session_set(event: Applied, tx: Tx) -> None:
    data = cast(ev.SessionSet, event.data)
    branch_of(event, tx, data.branch)
    tx.execute(
        "INSERT INTO chat_sessions VALUES (?, ?, ?, ?, ?) ON CONFLICT(chat, branch, profile)"
        " DO UPDATE SET session = excluded.session, standard = excluded.standard",
        (event.stream_id, data.branch, data.profile_id, data.session_id, data.default),
    )
    use_scope(event, tx, data.profile_id, data.session_id, runs=0)


# Turns and variants


@operations_view.on(ev.TurnAsked)
def _turn_asked(event: Applied, tx: Tx) -> None:
    data = cast(ev.TurnAsked, event.data)
    branch = branch_of(event, tx, data.branch)
    check_free(event, tx, branch)
    take_run(event, tx, data.run)
    head = branch.head
    if data.trigger == "generate":
        if (data.text is None) != data.is_wordless:
            raise InvalidEvent("a new turn needs the person's words", got="none")
        if data.is_wordless and not head:
            raise ChatConflict(
                f"nothing was said yet in chat {event.stream.id!r}", hint="Say something first."
            )
        parent = rows.load(tx, event, head) if head else None
        head = _insert_asked(event, tx, parent, data)
    elif data.trigger == "regenerate":
        _check_another(event, tx, rows.load(tx, event, head) if head else None)
    elif data.trigger == "continue":
        last = rows.load(tx, event, head) if head else None
        if last is not None and last.hidden & rows.REPLY_HIDDEN:
            raise ChatConflict(
                f"the last reply of chat {event.stream.id!r} is hidden from the prompt",
                hint="Show it again to go on with it.",
            )
        if last is None or not last.has_reply:
            raise ChatConflict(
                f"branch {data.branch!r} of chat {event.stream.id!r} ends with no reply",
                hint="Only a reply can be continued: generate or regenerate one first.",
            )
    else:
        raise InvalidEvent("trigger", expected="generate, regenerate, continue", got=data.trigger)
    tx.execute(
        "UPDATE chat_branches SET head = ?, run = ?, trigger = ?, job = ?, made = 0"
        " WHERE chat = ? AND name = ?",
        (head, data.run, data.trigger, data.settings, event.stream_id, data.branch),
    )


def _insert_asked(event: Applied, tx: Tx, parent: Node | None, data: ev.TurnAsked) -> int:
    words = () if data.text is None else (ev.ReplyPart(text=data.text, speaker=data.persona),)
    node = Node(
        chat=event.stream_id,
        node=event.seq * NODES_PER_EVENT,
        parent=parent.node if parent is not None else 0,
        turn=event.seq * NODES_PER_EVENT,
        number=parent.number + 1 if parent is not None else 1,
        variant=0,
        status=TurnStatus.ASKED,
        trigger=data.trigger,
        run=data.run,
        user=encoded_parts(words),
        tokens=(parent.tokens if parent is not None else 0) + data.tokens,
        at_us=event.at_us,
    )
    node = rows.inherit(tx, node, parent)
    rows.insert(tx, node)
    return node.node


def _check_another(event: Applied, tx: Tx, head: Node | None) -> None:
    """Errors: `Conflict` if the newest turn of a branch cannot have another variant."""
    asked = None if head is None else rows.load(tx, event, head.turn)
    # A turn without words of the person was asked for all the same; a greeting was not.
    if head is None or asked is None or not (asked.user_parts() or asked.trigger == "generate"):
        raise ChatConflict(
            f"there is nothing to reply to in chat {event.stream.id!r}",
            hint="Generate a turn first; another greeting is selected, not generated.",
        )
    if _variants(tx, head) >= VARIANTS_MAX:
        raise too_many("variants of one turn", VARIANTS_MAX, VARIANTS_MAX + 1)


def _variants(tx: Tx, node: Node) -> int:
    row = tx.one("SELECT max(variant) FROM chat_nodes WHERE chat = ? AND turn = ?", (node.chat, node.turn))
    return row[0] if row else 0


@operations_view.on(ev.VariantBegun)
def _variant_begun(event: Applied, tx: Tx) -> None:
    data = cast(ev.VariantBegun, event.data)
    branch = waiting(event, tx, data.branch, data.run)
    if branch.made:
        raise ChatConflict(f"run {data.run!r} has begun its variant already")
    head = rows.load(tx, event, branch.head)
    if branch.trigger == "continue":
        if data.changes:
            raise InvalidEvent("a continued reply changes no artifacts", got=len(data.changes))
        tx.execute(
            "UPDATE chat_branches SET made = ? WHERE chat = ? AND name = ?",
            (head.node, event.stream_id, data.branch),
        )
        return
    node = _insert_variant(event, tx, head, data, trigger=branch.trigger)
    # Another variant takes the place of the one that there is only when it has a reply.
    at_once = branch.trigger == "generate" or head.variant == 0
    tx.execute(
        "UPDATE chat_branches SET made = ?, head = ? WHERE chat = ? AND name = ?",
        (node.node, node.node if at_once else head.node, event.stream_id, data.branch),
    )
    if data.scope:
        profile, _, session = data.scope.partition("/")
        use_scope(event, tx, profile, session, runs=1)


def _insert_variant(event: Applied, tx: Tx, head: Node, data: ev.VariantBegun, *, trigger: str) -> Node:
    parent = rows.load(tx, event, head.parent) if head.parent else None
    asked = rows.load(tx, event, head.turn)
    number = _variants(tx, head) + 1
    if number > VARIANTS_MAX:
        raise too_many("variants of one turn", VARIANTS_MAX, number)
    node = Node(
        chat=head.chat,
        node=event.seq * NODES_PER_EVENT,
        parent=head.parent,
        turn=head.turn,
        number=head.number,
        variant=number,
        status=TurnStatus.BEGUN,
        trigger=trigger,
        run=data.run,
        profile=data.profile,
        user=encoded_parts(limit_parts(data.user)),
        tokens=asked.tokens,
        at_us=event.at_us,
    )
    node = rows.inherit(tx, node, parent, scope=data.scope)
    state = _apply_changes(event, tx, node, data.changes, profile=data.profile, run=data.run)
    if state is not None:
        node = replace(node, state=state)
    rows.insert(tx, node)
    return node


@operations_view.on(ev.VariantEnded)
def _variant_ended(event: Applied, tx: Tx) -> None:
    data = cast(ev.VariantEnded, event.data)
    branch = waiting(event, tx, data.branch, data.run)
    if data.status not in ENDS:
        raise InvalidEvent("status of a variant", expected="done, failed, aborted", got=data.status)
    limit_parts(data.parts)
    if not branch.made:
        _ended_before_barrier(data)
        return
    node = rows.load(tx, event, branch.made)
    if branch.trigger == "continue":
        if data.parts:
            _extend(event, tx, node, data)
        return
    is_over = node.status is TurnStatus.DONE or (node.has_reply and node.status is not TurnStatus.BEGUN)
    if is_over:
        raise ChatConflict(f"run {data.run!r} has ended its variant already")
    state = _apply_changes(event, tx, node, data.changes, profile=node.profile, run=data.run)
    user = encoded_parts(limit_parts(data.user)) if data.user else node.user
    rows.end_node(
        tx,
        node,
        TurnStatus(data.status),
        parts=encoded_parts(data.parts),
        finish=data.finish_reason,
        user=user,
        state=node.state if state is None else state,
        **_conversation_of(event, tx, data, reworded=user != node.user)._asdict(),
        tokens=data.tokens or node.tokens,
        marks=encoded_map({**node.decode_marks(), **data.marks}) if data.marks else node.marks,
    )
    if data.parts:
        tx.execute(
            "UPDATE chat_branches SET head = ? WHERE chat = ? AND name = ?",
            (node.node, event.stream_id, data.branch),
        )


class _ConversationPlace(NamedTuple):
    """Columns of a node: `Node` describes them."""

    base: str = ""
    shown: int = 0
    apart: int = 0


def _conversation_of(event: Applied, tx: Tx, data: ev.VariantEnded, *, reworded: bool) -> _ConversationPlace:
    """Return which messages of the run's conversation are what the chat says.

    A patched reply is none of them; words of the person that were changed after the reply are not either.
    """
    has_reply = bool(data.parts)
    shown, apart = data.shown, int(has_reply and data.patched)
    if reworded:
        shown, apart = shown - 1 - int(has_reply and not data.patched), 2
    if shown <= 0 or shown > newest_message_in(tx, event.stream.tenant, data.run, CONVERSATION):
        return _ConversationPlace()
    return _ConversationPlace(base=data.run, shown=shown, apart=apart)


def _ended_before_barrier(data: ev.VariantEnded) -> None:
    """A turn that failed so early has no variant; it stays as it was asked."""
    if data.parts or data.changes or data.user or data.marks or data.status == "done":
        raise ChatConflict(f"run {data.run!r} ends a variant that it has not begun")


def _extend(event: Applied, tx: Tx, node: Node, data: ev.VariantEnded) -> None:
    """The reply is longer from now on; where others stand on what it was, it becomes a variant of its own."""
    if data.changes:
        raise InvalidEvent("a continued reply changes no artifacts", got=len(data.changes))
    before = node.reply_parts()
    if {part.text for part in data.parts} <= {part.text for part in before}:
        return  # nothing came
    kept = tuple(part for part in before if not part.prompt)  # which the model could not see
    columns: dict[str, Any] = {
        "parts": encoded_parts(limit_parts((*data.parts, *kept))),
        "finish": data.finish_reason,
        "tokens": data.tokens or node.tokens,
        **_conversation_of(event, tx, data, reworded=False)._asdict(),
    }
    if not _is_shared(tx, node, data.branch):
        rows.end_node(tx, node, TurnStatus.DONE, **columns)
        return
    number = _variants(tx, node) + 1
    if number > VARIANTS_MAX:
        raise too_many("variants of one turn", VARIANTS_MAX, number)
    made = replace(
        node,
        node=event.seq * NODES_PER_EVENT,
        variant=number,
        status=TurnStatus.DONE,
        trigger="continue",
        run=data.run,
        at_us=event.at_us,
        **columns,
    )
    rows.insert(tx, made)
    tx.execute(
        "UPDATE chat_branches SET head = ?, made = ? WHERE chat = ? AND name = ?",
        (made.node, made.node, event.stream_id, data.branch),
    )


def _is_shared(tx: Tx, node: Node, branch: str) -> bool:
    """Return True if something was said after a node, or another branch stands there."""
    return bool(
        tx.one("SELECT 1 FROM chat_nodes WHERE chat = ? AND parent = ? LIMIT 1", (node.chat, node.node))
        or tx.one(
            "SELECT 1 FROM chat_branches WHERE chat = ? AND head = ? AND name <> ? LIMIT 1",
            (node.chat, node.node, branch),
        )
    )


@operations_view.on(ev.TurnsImported)
def _turns_imported(event: Applied, tx: Tx) -> None:
    data = cast(ev.TurnsImported, event.data)
    branch = branch_of(event, tx, data.branch)
    check_free(event, tx, branch)
    size = sum(1 + len(turn.variants) for turn in data.turns)
    if size > NODES_PER_EVENT:
        raise too_many("turns and variants of one import", NODES_PER_EVENT, size)
    head = rows.load(tx, event, branch.head) if branch.head else None
    index = 0
    for turn in data.turns:
        number = 0 if head is None and turn.user is None else (head.number + 1 if head else 1)
        found = _turn_of_replies(
            event,
            tx,
            turn.variants,
            index=index,
            parent=head,
            number=number,
            user=turn.user,
            tokens=turn.tokens,
            hidden=turn.hidden,
            persona=turn.persona,
            speaker=turn.speaker,
            reasoning=turn.reasoning,
            sent_us=turn.sent_us,
            kept=turn.kept,
        )
        if not found:
            raise InvalidEvent("an imported turn says nothing", got="neither words nor replies")
        asked = 0 if turn.user is None else 1
        if turn.variants and not 0 <= turn.selected < len(turn.variants):
            raise InvalidEvent("selected variant", got=turn.selected)
        index += len(found)
        head = rows.load(tx, event, found[asked + turn.selected if turn.variants else 0])
    if head is not None:
        move(event, tx, data.branch, head=head.node)


def _thoughts(reasoning: tuple[ev.BlobRef | None, ...], variant: int) -> tuple[ev.ReplyPart, ...]:
    ref = reasoning[variant - 1] if variant <= len(reasoning) else None
    return () if ref is None else (ev.ReplyPart(channel="reasoning", text=ref, prompt=False),)


def _kept(kept: tuple[ev.BlobRef | None, ...], variant: int) -> tuple[ev.ReplyPart, ...]:
    ref = kept[variant] if variant < len(kept) else None
    return () if ref is None else (ev.ReplyPart(channel=rows.FILE, text=ref, prompt=False, ui=False),)


def _sent_us(sent_us: tuple[int, ...], variant: int) -> int:
    return sent_us[variant] if variant < len(sent_us) and sent_us[variant] > 0 else 0


def _turn_of_replies(
    event: Applied,
    tx: Tx,
    replies: tuple[ev.BlobRef, ...],
    *,
    index: int,
    parent: Node | None,
    number: int,
    user: ev.BlobRef | None = None,
    tokens: int = 0,
    hidden: tuple[str, ...] = (),
    persona: ev.BlobRef | None = None,
    speaker: ev.BlobRef | None = None,
    reasoning: tuple[ev.BlobRef | None, ...] = (),
    sent_us: tuple[int, ...] = (),
    kept: tuple[ev.BlobRef | None, ...] = (),
) -> list[int]:
    """A turn that no run has made; its nodes, that of the person's words first if there are any."""
    if len(replies) > VARIANTS_MAX:
        raise too_many("variants of one turn", VARIANTS_MAX, len(replies))
    first = event.seq * NODES_PER_EVENT + index
    node = Node(
        chat=event.stream_id,
        node=first,
        parent=parent.node if parent is not None else 0,
        turn=first,
        number=number,
        variant=0,
        status=TurnStatus.DONE,
        at_us=event.at_us,
        tokens=(parent.tokens if parent is not None else 0) + tokens,
    )
    node = rows.inherit(tx, node, parent)
    made: list[int] = []
    if user is not None:
        words = encoded_parts((ev.ReplyPart(text=user, speaker=persona), *_kept(kept, 0)))
        bit = rows.WORDS_HIDDEN if "user" in hidden else 0
        at_us = _sent_us(sent_us, 0) or event.at_us
        rows.insert(tx, replace(node, user=words, status=TurnStatus.ASKED, hidden=bit, at_us=at_us))
        made.append(first)
    for variant, reply in enumerate(replies, start=1):
        said = ev.ReplyPart(text=reply, speaker=speaker)
        parts = encoded_parts((*_thoughts(reasoning, variant), said, *_kept(kept, variant)))
        bit = rows.REPLY_HIDDEN if "assistant" in hidden else 0
        at_us = _sent_us(sent_us, variant) or event.at_us
        own = replace(node, node=first + len(made), variant=variant, parts=parts, hidden=bit, at_us=at_us)
        rows.insert(tx, own)
        made.append(own.node)
    return made


# Artifacts


def _apply_changes(
    event: Applied, tx: Tx, node: Node, changes: tuple[ev.ArtifactUpdate, ...], *, profile: str, run: str
) -> str | None:
    """The node's state after some changes; None if there are none."""
    if not changes:
        return None
    if len(changes) > CHANGES_MAX:
        raise too_many("changes of one commit", CHANGES_MAX, len(changes))
    if not node.scope or not profile:
        raise InvalidEvent("a plain call changes no artifacts", got=len(changes))
    state = node.versions()
    for index, change in enumerate(changes):
        prev = state.get(change.tag, 0)
        row = tx.one("SELECT version FROM chat_art WHERE chat = ? AND id = ?", (node.chat, prev))
        id_ = event.seq * VERSIONS_PER_EVENT + index
        tx.execute(
            f"INSERT INTO chat_art VALUES ({', '.join('?' * 17)})",
            (
                node.chat,
                id_,
                node.scope,
                change.tag,
                node.node,
                (row[0] if row else 0) + 1,
                prev,
                change.value,
                int(change.append),
                change.usage,
                change.semantics,
                change.versions_max,
                change.ttl_s,
                change.operation,
                profile,
                run,
                event.at_us,
            ),
        )
        state[change.tag] = id_
    return encoded_map(state)


# Steps of agents


@operations_view.on(ev.StepTaken)
def _step_taken(event: Applied, tx: Tx) -> None:
    """A node without words: its state is what the step left."""
    data = cast(ev.StepTaken, event.data)
    branch = branch_of(event, tx, data.branch)
    parent = rows.load(tx, event, branch.head) if branch.head else None
    first = event.seq * NODES_PER_EVENT
    node = Node(
        chat=event.stream_id,
        node=first,
        parent=parent.node if parent is not None else 0,
        turn=first,
        number=parent.number + 1 if parent is not None else 1,
        variant=1,
        status=TurnStatus.DONE,
        trigger="step",
        run=data.run,
        profile=data.profile,
        at_us=event.at_us,
        tokens=data.tokens,
    )
    node = rows.inherit(tx, node, parent, scope=data.scope)
    state = _apply_changes(event, tx, node, data.changes, profile=data.profile, run=data.run)
    if state is not None:
        node = replace(node, state=state)
    if data.marks:
        node = replace(node, marks=encoded_map({**node.decode_marks(), **data.marks}))
    rows.insert(tx, node)
    move(event, tx, data.branch, head=node.node)
    profile, _, session = data.scope.partition("/")
    use_scope(event, tx, profile, session, runs=1)


# Edits

operations_view.on(ev.MessageRevised)(rows.revise_message)
operations_view.on(ev.MessageHidden)(rows.hide_message)
operations_view.on(ev.TurnDeleted)(rows.delete_turn)
operations_view.on(ev.VariantDeleted)(rows.delete_variant)
operations_view.on(ev.BranchDeleted)(rows.delete_branch)
operations_view.on(ev.ChatDeleted)(rows.delete_chat)
operations_view.on(ev.ChatLabeled)(rows.label_chat)
