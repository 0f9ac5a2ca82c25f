"""Whatever is said, tried again, selected, branched, rewound: each branch has the state of its path."""

from __future__ import annotations

import asyncio
import copy
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from artelier import Kernel
from artelier.operations import events as ev
from tests.operations.chats import Chat

STEPS = 12
TAGS = ("hp", "log")
SCOPES = ("p/a", "p/b", "q/a")

writes = st.dictionaries(st.sampled_from(TAGS), st.integers(0, 99))
choice = st.integers(0, 10_000)


@dataclass
class Said:
    """A node as somebody would keep it who copies everything."""

    number: int
    above: list[str]
    words: list[str]
    before: dict[str, dict[str, list[int]]]
    """State of each scope before the turn: values by tag, newest first."""
    state: dict[str, dict[str, list[int]]]
    node: int = 0
    variants: list[Said] = field(default_factory=list["Said"])
    """All of its turn; shared between them."""


class Branches(RuleBasedStateMachine):
    """Chats against lists that are copied at every step."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.kernel = Kernel.open(":memory:", environ={})
        self.heads: dict[str, Said | None] = {"main": None}
        self.everything: list[Said] = []
        self.scope = dict.fromkeys(self.heads, SCOPES[0])

    def teardown(self) -> None:
        findings = self.kernel.verify().findings
        self.runner.close()
        self.kernel.close()
        assert findings == []

    def play(self, scenario: Any) -> Any:
        return self.runner.run(scenario)

    @initialize()
    def begin(self) -> None:
        self.chat = Chat(self.kernel)
        self.play(self.chat.begin())

    def branch(self, pick: int) -> str:
        return sorted(self.heads)[pick % len(self.heads)]

    def said_on(self, pick: int) -> tuple[str, Said] | None:
        """A branch on which something was said, and its newest turn."""
        found = [(name, head) for name, head in sorted(self.heads.items()) if head is not None]
        return found[pick % len(found)] if found else None

    def write(self, said: Said, values: dict[str, int], scope: str) -> None:
        state = said.state.setdefault(scope, {})
        for tag, value in sorted(values.items()):
            state[tag] = [value, *state.get(tag, [])][:4]

    async def turn(self, name: str, trigger: str, before: Any, after: Any, reply: str) -> None:
        chat, scope = self.chat, self.scope[name]
        changes = [
            [
                await chat.change(tag, value, append=tag == "log", versions_max=3 + (tag == "log"))
                for tag, value in sorted(values.items())
            ]
            for values in (before, after)
        ]
        words = f"t{chat.runs}"
        await chat.turn(
            reply,
            branch=name,
            trigger=trigger,
            text=words,
            scope=scope,
            before=changes[0],
            after=changes[1] if reply else (),
        )

    def newest(self, name: str, trigger: str) -> int:
        """The node that the last run made, whether or not it is the head."""
        rows = self.play(self.chat.store.query("SELECT max(node) FROM chat_nodes"))
        assert trigger and name
        return rows[0][0]

    @rule(pick=choice, before=writes, after=writes, replies=st.booleans())
    def generate(self, pick: int, before: dict[str, int], after: dict[str, int], replies: bool) -> None:
        name = self.branch(pick)
        head, words = self.heads[name], f"t{self.chat.runs}"
        self.play(self.turn(name, "generate", before, after, "r" if replies else ""))

        state = copy.deepcopy(head.state) if head else {}
        above = [*head.above, *head.words] if head else []
        said = Said(
            number=head.number + 1 if head else 1,
            above=above,
            words=[words, "r"] if replies else [words],
            before=copy.deepcopy(state),
            state=state,
        )
        self.keep(said, name, before, after if replies else {})
        self.heads[name] = said

    def keep(self, said: Said, name: str, before: dict[str, int], after: dict[str, int]) -> None:
        said.state.setdefault(self.scope[name], {})
        self.write(said, before, self.scope[name])
        self.write(said, after, self.scope[name])
        said.node = self.newest(name, "any")
        said.variants.append(said)
        self.everything.append(said)

    @precondition(lambda self: any(self.heads.values()))
    @rule(pick=choice, before=writes, after=writes, replies=st.booleans())
    def regenerate(self, pick: int, before: dict[str, int], after: dict[str, int], replies: bool) -> None:
        chosen = self.said_on(pick)
        assert chosen is not None
        name, head = chosen
        self.play(self.turn(name, "regenerate", before, after, "again" if replies else ""))

        said = Said(
            number=head.number,
            above=head.above,
            words=[head.words[0], "again"] if replies else head.words[:1],
            before=head.before,
            state=copy.deepcopy(head.before),
            variants=head.variants,
        )
        self.keep(said, name, before, after if replies else {})
        if replies:
            self.heads[name] = said

    @precondition(lambda self: bool(self.everything))
    @rule(pick=choice, which=choice)
    def select(self, pick: int, which: int) -> None:
        name, said = self.branch(pick), self.everything[which % len(self.everything)]
        self.play(self.chat.put(ev.VariantSelected(branch=name, node=said.node)))
        self.heads[name] = said

    @precondition(lambda self: bool(self.everything))
    @rule(pick=choice, which=choice)
    def fork(self, pick: int, which: int) -> None:
        origin, said = self.branch(pick), self.everything[which % len(self.everything)]
        name = f"b{len(self.heads)}"
        self.play(self.chat.put(ev.BranchMade(branch=name, origin=origin, node=said.node)))
        self.heads[name], self.scope[name] = said, self.scope[origin]

    @rule(pick=choice)
    def rewind(self, pick: int) -> None:
        name = self.branch(pick)
        self.play(self.chat.put(ev.BranchRewound(branch=name, node=0)))
        self.heads[name] = None

    @rule(pick=choice, scope=st.sampled_from(SCOPES))
    def reset(self, pick: int, scope: str) -> None:
        self.scope[self.branch(pick)] = scope

    @invariant()
    def every_branch_has_the_state_of_its_path(self) -> None:
        for name, head in self.heads.items():
            expected = head.state.get(self.scope[name], {}) if head else {}
            found = self.play(self.chat.state(name, scope=self.scope[name]))
            assert found == expected
            words = [*head.above, *head.words] if head else []
            assert self.play(self.chat.said(name)) == words

    @invariant()
    def numbers_are_those_of_the_path(self) -> None:
        for name, head in self.heads.items():
            turns = self.play(self.chat.nodes(name))
            numbers = list(range(1, head.number + 1)) if head else []
            assert [turn.number for turn in turns] == numbers


TestBranches = Branches.TestCase
TestBranches.settings = settings(stateful_step_count=STEPS, max_examples=15)
