"""An evening drawn at random through sessions: turns, swipes, edits, deletions, hides, branches and kills.

A model of lists and copies stands beside it. After each step every branch shows what the model says, with
its state; every prompt that was sent is what the branch showed by then, and renders again byte for byte.
"""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from artelier import Kernel, ModelRequest, OperationProfile, Session
from artelier.testing import ScriptedModel
from tests.operations.profiles import template

STEPS = 14
CAST = ("Mira", "Bob")
KEPT = {"max_versions": 100}
PROFILE = OperationProfile.parse(
    {
        "profile_id": "p",
        "operations": [
            template("log", "{{ reply }}", tag="log", usage="ui_only", write_mode="append", retention=KEPT)
        ],
    }
)
choice = st.integers(0, 10_000)


@dataclass(eq=False)
class Turn:
    """A turn as somebody keeps it who copies nothing: what its variants share."""

    number: int
    above: Node | None
    words: str
    is_hidden: bool = False
    was: list[str] = field(default_factory=list[str])
    """Words that were revised."""
    nodes: list[Node] = field(default_factory=list["Node"])
    """The asked one first, then the variants."""


@dataclass(eq=False)
class Node:
    """A variant, or (`variant` 0) the turn as it was asked."""

    turn: Turn
    variant: int
    made: int
    reply: str = ""
    speaker: str = ""
    log: tuple[str, ...] = ()
    is_hidden: bool = False
    is_deleted: bool = False


class Evening(RuleBasedStateMachine):
    """A chat with two characters against lists."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.asked: list[ModelRequest] = []
        self.heads: dict[str, Node | None] = {"main": None}
        self.all: list[Node] = []
        self.prompts: dict[str, bytes] = {}
        self.revised = 0
        self.gone: set[str] = set()
        """Words that stand nowhere any more."""

    def _answer(self, request: ModelRequest) -> str:
        self.asked.append(request)
        return f"reply{len(self.asked)}"

    def _open(self) -> None:
        path = Path(self.folder.name) / "state.db"
        self.kernel = Kernel.open(path, models={"m": ScriptedModel(self._answer)}, environ={})

    @initialize()
    def begin(self) -> None:
        self._open()
        group = [{"name": name} for name in CAST]
        opening = Session.open(self.kernel, "c", model="m", user="Ann", group=group, profile=PROFILE)
        self.runner.run(opening)

    def teardown(self) -> None:
        findings = self.kernel.verify().findings
        self.runner.close()
        self.kernel.close()
        self.folder.cleanup()
        assert findings == []

    # The model

    def _session(self, branch: str) -> Session:
        return Session(self.kernel.for_tenant(None), "c", branch=branch)

    def _branch(self, pick: int) -> tuple[str, Node | None]:
        return sorted(self.heads.items())[pick % len(self.heads)]

    def _path(self, head: Node | None) -> list[Node]:
        found: list[Node] = []
        while head is not None:
            found.append(head)
            head = head.turn.above
        return [one for one in reversed(found) if not one.is_deleted]

    def _shown(self, head: Node | None) -> list[str]:
        """The messages that a prompt shows of a path."""
        said: list[str] = []
        for one in self._path(head):
            if one.turn.words and not one.turn.is_hidden:
                said.append(f"Ann: {one.turn.words}")
            if one.reply and not one.is_hidden:
                said.append(f"{one.speaker}: {one.reply}")
        return said

    def _add(self, turn: Turn, *, reply: str, speaker: str, log: tuple[str, ...]) -> Node:
        made = Node(
            turn=turn, variant=len(turn.nodes), made=len(self.all), reply=reply, speaker=speaker, log=log
        )
        turn.nodes.append(made)
        self.all.append(made)
        return made

    def _present_above(self, node: Node | None) -> Node | None:
        while node is not None and node.is_deleted:
            node = node.turn.above
        return node

    def _below(self, node: Node) -> list[Node]:
        return [one for one in self.all if node in self._ancestors(one)]

    def _ancestors(self, node: Node) -> list[Node]:
        found: list[Node] = []
        above = node.turn.above
        while above is not None:
            found.append(above)
            above = above.turn.above
        return found

    def _pick_turn(self, pick: int, at: int) -> tuple[str, Node] | None:
        name, head = self._branch(pick)
        path = self._path(head)
        return (name, path[at % len(path)]) if path else None

    # Turns

    def _drive(self, name: str, *, kills: bool, **wish: Any) -> Any:
        """Have a turn; with `kills` by another process than the one that asked."""
        session = self._session(name)
        if not kills:
            done = {"generate": session.generate, "regenerate": session.regenerate, "speak": session.speak}
            trigger = wish.pop("trigger")
            if trigger == "continue":
                return self.runner.run(session.continue_())
            if trigger == "generate":
                return self.runner.run(session.generate(wish.pop("text"), **wish))
            return self.runner.run(done[trigger](**wish))
        self.runner.run(session.ask(**wish))
        self.kernel.close()
        self._open()
        return self.runner.run(self._session(name).resume())

    def _check_prompt(self, result: Any, expected: list[str]) -> None:
        assert result.status == "completed", result.failed
        said = [one.text for one in self.asked[-1].messages[1:-1]]
        assert said == expected
        assert not [word for word in self.gone if any(word in one.text for one in self.asked[-1].messages)]
        self.prompts[result.run_id] = self.asked[-1].canonical()

    @rule(pick=choice, speaker=st.sampled_from(CAST), speaks=st.booleans(), kills=st.booleans())
    def say(self, pick: int, speaker: str, speaks: bool, kills: bool) -> None:
        name, head = self._branch(pick)
        words = "" if speaks and head is not None else f"words{len(self.all)}."
        wish: dict[str, Any] = {"trigger": "generate", "text": words} if words else {"trigger": "speak"}
        result = self._drive(name, kills=kills, speaker=speaker, **wish)
        expected = [*self._shown(head), *([f"Ann: {words}"] if words else [])]
        self._check_prompt(result, expected)
        number = head.turn.number + 1 if head is not None else 1
        turn = Turn(number=number, above=head, words=words)
        log = head.log if head is not None else ()
        self._add(turn, reply="", speaker="", log=log)
        self.heads[name] = self._add(turn, reply=result.text, speaker=speaker, log=(*log, result.text))

    @precondition(lambda self: any(self.heads.values()))
    @rule(pick=choice, speaker=st.sampled_from(CAST), kills=st.booleans())
    def swipe(self, pick: int, speaker: str, kills: bool) -> None:
        name, head = self._branch(pick)
        if head is None:
            return
        result = self._drive(name, kills=kills, trigger="regenerate", speaker=speaker)
        above, turn = head.turn.above, head.turn
        # The words are said again; that they are hidden counts for later prompts.
        self._check_prompt(result, [*self._shown(above), *([f"Ann: {turn.words}"] if turn.words else [])])
        log = above.log if above is not None else ()
        self.heads[name] = self._add(turn, reply=result.text, speaker=speaker, log=(*log, result.text))

    @precondition(lambda self: any(self.heads.values()))
    @rule(pick=choice)
    def more(self, pick: int) -> None:
        name, head = self._branch(pick)
        if head is None or not head.reply or head.is_hidden:
            return
        result = self._drive(name, kills=False, trigger="continue")
        self._check_prompt(result, self._shown(head))
        text = f"{head.reply} reply{len(self.asked)}"
        others = [one for branch, one in self.heads.items() if branch != name]
        if self._below(head) or head in others:
            self.heads[name] = self._add(head.turn, reply=text, speaker=head.speaker, log=head.log)
        else:
            head.reply = text

    # Where a branch stands

    @rule(pick=choice, at=choice)
    def branch(self, pick: int, at: int) -> None:
        found = self._pick_turn(pick, at)
        if found is None or len(self.heads) > 4:
            return
        name, node = found
        made = self.runner.run(self._session(name).branch(f"b{len(self.heads)}", at_turn=node.turn.number))
        self.heads[made.branch_name] = node

    @rule(pick=choice, at=choice)
    def rewind(self, pick: int, at: int) -> None:
        if (found := self._pick_turn(pick, at)) is not None:
            self.runner.run(self._session(found[0]).rewind(found[1].turn.number))
            self.heads[found[0]] = found[1]

    @rule(pick=choice, at=choice, variant=choice)
    def select(self, pick: int, at: int, variant: int) -> None:
        found = self._pick_turn(pick, at)
        if found is None:
            return
        name, node = found
        others = [one for one in node.turn.nodes if one.variant and not one.is_deleted]
        if not others or (chosen := others[variant % len(others)]) is node:
            return
        self.runner.run(self._session(name).select_variant(node.turn.number, chosen.variant))
        below = [one for one in self._below(chosen) if one.reply and not one.is_deleted]
        self.heads[name] = max([chosen, *below], key=lambda one: one.made)

    # Edits

    @rule(pick=choice, at=choice, is_reply=st.booleans())
    def revise(self, pick: int, at: int, is_reply: bool) -> None:
        found = self._pick_turn(pick, at)
        if found is None or not (found[1].reply if is_reply else found[1].turn.words):
            return
        name, node = found
        self.revised += 1
        text = f"revised{self.revised}."
        role = "assistant" if is_reply else "user"
        self.runner.run(self._session(name).revise(text, turn=node.turn.number, role=role))
        if is_reply:
            node.reply = text
        else:
            node.turn.was.append(node.turn.words)
            node.turn.words = text

    @rule(pick=choice, at=choice, is_reply=st.booleans(), hidden=st.booleans())
    def hide(self, pick: int, at: int, is_reply: bool, hidden: bool) -> None:
        found = self._pick_turn(pick, at)
        if found is None or not (found[1].reply if is_reply else found[1].turn.words):
            return
        name, node = found
        role = "assistant" if is_reply else "user"
        self.runner.run(self._session(name).hide(turn=node.turn.number, role=role, hidden=hidden))
        (node if is_reply else node.turn).is_hidden = hidden

    @rule(pick=choice, at=choice)
    def delete(self, pick: int, at: int) -> None:
        found = self._pick_turn(pick, at)
        if found is None:
            return
        name, node = found
        done = self.runner.run(self._session(name).delete_turn(node.turn.number))
        assert len(done.derived_runs) >= len([one for one in node.turn.nodes if one.reply]) > 0
        for one in node.turn.nodes:
            one.is_deleted, one.reply = True, ""
        assert done.is_erased
        for run_id in done.derived_runs:  # they were shown the words
            self.prompts.pop(run_id, None)
        canaries = [one for one in (*node.turn.was, node.turn.words) if one]
        self.gone.update(canaries)
        found = self.runner.run(self._find(canaries))
        assert found == [], "deleted words are in the database"
        for branch, head in self.heads.items():
            if head in node.turn.nodes:
                self.heads[branch] = self._present_above(node.turn.above)

    async def _find(self, canaries: list[str]) -> list[tuple[str, str]]:
        """Look for words in every byte of the store, and in all content that can be read (it is packed)."""
        files = [file for file in Path(self.folder.name).iterdir() if file.is_file()]
        texts = {file.name: file.read_bytes() for file in files}
        store = self.kernel.store
        for (name,) in await store.query("SELECT name FROM blobs"):
            texts[name.hex()] = (await store.blobs("default", [name])).get(name, b"")
        return [(where, one) for where, text in texts.items() for one in canaries if one.encode() in text]

    # What must hold

    @invariant()
    def every_branch_shows_what_the_model_says(self) -> None:
        if not hasattr(self, "kernel"):
            return

        async def look(name: str) -> tuple[list[Any], Any]:
            session = self._session(name)
            turns = [
                (one.number, one.user, one.speaker, one.text) for one in await session.turns(limit=1_000)
            ]
            return turns, [one["value"] for one in (await session.arts()).values()]

        for name, head in self.heads.items():
            turns, values = self.runner.run(look(name))
            path = self._path(head)
            assert turns == [(one.turn.number, one.turn.words, one.speaker, one.reply) for one in path]
            log = list(head.log) if head is not None else []
            assert values == ([log] if log else [])

    @invariant()
    def every_prompt_renders_again(self) -> None:
        for run_id, content in list(self.prompts.items())[-3:]:
            shown, _ = self.runner.run(self.kernel.for_tenant(None).shown(run_id, "main/model"))
            assert shown.canonical() == content


Evening.TestCase.settings = settings(max_examples=15, stateful_step_count=STEPS, deadline=None)
test_an_evening = Evening.TestCase
