"""Random trees of invocations against a plain model: money, effects, and all or nothing."""

from __future__ import annotations

import asyncio
import copy
import tempfile
from pathlib import Path
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from artelier.artifacts import InvocationFailed
from artelier.errors import InsufficientFunds
from artelier.log import SqliteStore, verify_store
from artelier.sandbox import MontySandbox
from tests.artifacts.places import VIEWS, Place, held, total

TOOLS = 4
OWNERS = ("alice", "bob", "carol", "artifact:t3")


class Pay(NamedTuple):
    to: str
    amount: int


class Write(NamedTuple):
    id: str


class Invoke(NamedTuple):
    tool: int
    is_caught: bool


class Fail(NamedTuple):
    pass


Statement = Pay | Write | Invoke | Fail


class Tool(NamedTuple):
    owner: str
    price: int
    body: list[Statement]


class State:
    def __init__(self, scrip: dict[str, int]) -> None:
        self.scrip = scrip
        self.written: dict[str, int] = {}


class Failed(Exception):
    pass


def expect(tools: list[Tool], n: int, caller: str, state: State) -> None:
    """What an invocation does to a state, by the letter of its promise."""
    tool, me = tools[n], f"artifact:t{n}"
    price = 0 if caller == tool.owner else tool.price
    move(state, caller, price)
    for statement in tool.body:
        match statement:
            case Pay(to, amount):
                if to == me:
                    raise Failed
                move(state, me, amount)
                state.scrip[to] = state.scrip.get(to, 0) + amount
            case Write(id):
                state.written[id] = state.written.get(id, 0) + 1
            case Invoke(nested, is_caught):
                inner = copy.deepcopy(state)
                try:
                    expect(tools, nested, me, inner)
                except Failed:
                    if not is_caught:
                        raise
                else:
                    state.scrip, state.written = inner.scrip, inner.written
            case Fail():
                raise Failed
    state.scrip[tool.owner] = state.scrip.get(tool.owner, 0) + price


def move(state: State, source: str, amount: int) -> None:
    if state.scrip.get(source, 0) < amount:
        raise Failed
    state.scrip[source] = state.scrip.get(source, 0) - amount


def code_of(tool: Tool) -> str:
    lines = ["def run():"]
    for statement in tool.body:
        match statement:
            case Pay(to, amount):
                lines.append(f"    pay('{to}', {amount})")
            case Write(id):
                lines.append(f"    write('{id}', 1, kind='document')")
            case Invoke(nested, is_caught):
                call = f"invoke('t{nested}')"
                caught = f"    try:\n        {call}\n    except Exception:\n        pass"
                lines.append(caught if is_caught else f"    {call}")
            case Fail():
                lines.append("    1 / 0")
    return "\n".join([*lines, "    return 1"])


def bodies(n: int) -> st.SearchStrategy[list[Statement]]:
    people = st.sampled_from([*OWNERS, *(f"artifact:t{m}" for m in range(TOOLS))])
    kinds: list[st.SearchStrategy[Statement]] = [
        st.builds(Pay, people, st.integers(1, 4)),
        # Each tool writes an artifact of its own: whose rights it has is another test's question.
        st.just(Write(f"made{n}")),
        st.just(Fail()),
    ]
    if n + 1 < TOOLS:
        kinds += [st.builds(Invoke, st.integers(n + 1, TOOLS - 1), st.booleans())] * 3
    return st.lists(st.one_of(kinds), max_size=4)


trees = st.tuples(
    *(st.builds(Tool, st.sampled_from(OWNERS), st.integers(0, 3), bodies(n)) for n in range(TOOLS))
)
funds = st.dictionaries(
    st.sampled_from(["bob", *(f"artifact:t{n}" for n in range(TOOLS))]), st.integers(1, 8)
)


@given(tools=trees, funds=funds, roots=st.lists(st.integers(0, TOOLS - 1), min_size=1, max_size=3))
@settings(max_examples=40)
def test_money_and_effects_of_random_trees_are_those_of_the_model(
    sandbox: MontySandbox, tools: tuple[Tool, ...], funds: dict[str, int], roots: list[int]
) -> None:
    async def story(here: Place) -> None:
        here.interpreter = sandbox
        for n, tool in enumerate(tools):
            maker = here.as_(tool.owner)
            await maker.write(
                f"t{n}", kind="tool", content={"code": code_of(tool)}, prices={"invoke": tool.price}
            )
        for who, amount in funds.items():
            await here.fund(who, amount)
        state = State(dict(funds))

        for root in roots:
            attempt = copy.deepcopy(state)
            try:
                expect(list(tools), root, "bob", attempt)
                state, works = attempt, True
            except Failed:
                works = False
            try:
                await here.as_("bob").invoke(f"t{root}")
                assert works
            except (InvocationFailed, InsufficientFunds):
                assert not works

            for who in {*OWNERS, *funds, *state.scrip, "bob"}:
                assert await here.scrip(who) == state.scrip.get(who, 0), who
            rows = await here.store.query("SELECT id, version FROM artifacts WHERE kind = 'document'")
            assert dict(rows) == state.written
            assert (await held(here), await total(here)) == (0, 0)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.db"
        store = SqliteStore(path, VIEWS)
        try:
            asyncio.run(story(Place(store)))
        finally:
            store.close()
        assert verify_store(path, VIEWS).findings == []
