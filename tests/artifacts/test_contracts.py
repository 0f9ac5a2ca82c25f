"""Contracts: who decides, what denies, what it costs, how often they are asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artelier.artifacts import Decisions, InvocationFailed
from artelier.errors import AccessDenied, InsufficientFunds, InvalidArtifact, NotFound
from artelier.ports.sandbox import SandboxResult
from artelier.sandbox import MontySandbox
from tests.artifacts.places import LEDGER, Place, held, in_place, total  # noqa: F401 - the view is verified

RULE = "def check(caller, action, target, context):\n    "
BOBS = f"{RULE}return caller == 'bob' and action in ('read', 'search')"


async def govern(here: Place, code: str, *, price: int = 0, who: str = "alice") -> None:
    """`x` of alice stands under the contract `rule`."""
    await here.as_(who).write("rule", kind="contract", content=code)
    await here.as_("alice").write(
        "x", kind="document", content="secret", access={"contract": "rule"}, prices={"read": price}
    )


class Counted:
    """A real sandbox that knows how often it ran."""

    def __init__(self, sandbox: MontySandbox) -> None:
        self._sandbox = sandbox
        self.runs = 0

    async def run(self, code: str, **more: Any) -> SandboxResult:
        self.runs += 1
        return await self._sandbox.run(code, **more)


def test_a_contract_decides_per_caller_and_action(tmp_path: Path, sandbox: MontySandbox) -> None:
    async def story(here: Place) -> None:
        await govern(here, BOBS)

        assert (await here.as_("bob").read("x")).content == "secret"
        assert [found.id for found in await here.as_("bob").search("secret")] == ["x"]
        for who in ("eve", "alice"):  # nobody is above it, its owner may replace it
            with pytest.raises(AccessDenied, match="contract rule says no"):
                await here.as_(who).read("x")
            assert await here.as_(who).search("secret") == []
        with pytest.raises(AccessDenied):
            await here.as_("bob").write("x", content="mine")
        await here.as_("alice").write("x", content="open", access="owner_writes")
        assert (await here.as_("eve").read("x")).content == "open"

    in_place(tmp_path, story, interpreter=sandbox)


def test_a_contract_sees_facts_by_value(tmp_path: Path, sandbox: MontySandbox) -> None:
    code = RULE + "return {'allow': False, 'reason': str([caller, action, target, sorted(context)])}"

    async def story(here: Place) -> None:
        await govern(here, code, price=2)
        decisions = Decisions(facts={"run": "r1"})

        verdict = await here.as_("bob", decisions=decisions).access("x", "include")

        for fact in ("'bob', 'include'", "'id': 'x'", "'owner': 'alice'", "'read': 2"):
            assert fact in verdict.reason
        # The reason is cut; the context came last.
        assert len(verdict.reason) < 300

    in_place(tmp_path, story, interpreter=sandbox)


@pytest.mark.parametrize(
    "reply",
    [
        "None",
        "1",
        "'allow'",
        "[True]",
        "{}",
        "{'allow': 1}",
        "{'allow': 'yes'}",
        "{'allow': True, 'prize': 1}",
        "{'allow': True, 'price': -1}",
        "{'allow': True, 'price': 1.0}",
        "{'allow': True, 'price': True}",
        "{'allow': True, 'price': 10 ** 13}",
        "{'allow': True, 'payer': 7}",
        "{'allow': True, 'payer': 'b b'}",
        "{'allow': True, 'reason': None}",
        "{1: True}",
        "1 / 0",
        "undefined",
        "read('x')",
        "open('/etc/passwd').read()",
        "(lambda f: f(f))(lambda f: f(f))",
        "'x' * 10 ** 9",
        "{'allow': True, 'price': 2 ** 70}",
    ],
)
def test_every_other_answer_denies(tmp_path: Path, sandbox: MontySandbox, reply: str) -> None:
    """I10: broken, of another shape, or reaching for what a pure function does not have."""

    async def story(here: Place) -> None:
        await govern(here, f"{RULE}return {reply}")
        await here.fund("bob", 10)

        verdict = await here.as_("bob").access("x", "read", price_max=10**12)

        assert (verdict.refusal, verdict.postings) == ("denied", ())

    in_place(tmp_path, story, interpreter=sandbox)


def test_a_contract_that_is_too_slow_denies_and_is_a_fact(tmp_path: Path, sandbox: MontySandbox) -> None:
    slow = f"{RULE}while True:\n        try:\n            pass\n        except:\n            pass"

    async def story(here: Place) -> None:
        await govern(here, slow)
        step = Decisions()

        verdict = await here.as_("bob", decisions=step).access("x", "read")

        assert verdict.refusal == "denied"
        assert step.wall == {"rule@1?read:bob:x@1": "timeout"}

    in_place(tmp_path, story, interpreter=sandbox)


def test_a_replay_denies_where_a_contract_was_too_slow_and_only_there(
    tmp_path: Path, sandbox: MontySandbox
) -> None:
    async def story(here: Place) -> None:
        await govern(here, BOBS)
        recorded = Decisions(recorded={"rule@1?read:bob:x@1": "timeout"})

        assert not (await here.as_("bob", decisions=recorded).access("x", "read")).allowed
        assert (await here.as_("bob", decisions=recorded).access("x", "search")).allowed

    in_place(tmp_path, story, interpreter=sandbox)


@pytest.mark.parametrize("end", ["deleted", "renamed", "other kind", "never there", "no longer mine"])
def test_hole_21_a_contract_that_is_gone_makes_nothing_public(
    tmp_path: Path, sandbox: MontySandbox, end: str
) -> None:
    async def story(here: Place) -> None:
        alice, bob = here.as_("alice"), here.as_("bob")
        everybody = f"{RULE}return True"
        await alice.write("rule", kind="contract", content=everybody, access="private")
        await alice.write("x", kind="document", content="secret", access={"contract": "rule"})
        assert (await bob.read("x")).content == "secret"

        if end == "deleted":
            await alice.delete("rule")
        elif end == "renamed":
            await alice.write("rules", kind="contract", content=everybody)
            await alice.delete("rule")
        elif end == "other kind":
            await alice.write("doc", kind="document", content=everybody)
            await alice.write("x", content="secret", access={"contract": "doc"})
        elif end == "never there":
            await alice.write("x", content="secret", access={"contract": "never-was"})
        else:
            await alice.transfer("rule", "eve")  # alice may not use it any more

        for who in ("alice", "bob", "eve"):
            mine = here.as_(who)
            with pytest.raises(AccessDenied):
                await mine.read("x")
            with pytest.raises(AccessDenied):
                await mine.history("x")
            assert await mine.search("secret") == []
            assert "x" not in [found.id for found in await mine.list()]
            assert (await mine.take("x")).artifact is None
        with pytest.raises(AccessDenied):
            await bob.write("x", content="y", access="public")
        await alice.write("x", content="secret", access="private")
        assert (await alice.read("x")).content == "secret"

    in_place(tmp_path, story, interpreter=sandbox)


@pytest.mark.parametrize(("count", "allowed"), [(1, True), (2, True), (10, True), (11, False)])
def test_contracts_govern_contracts_ten_deep_with_two_workers(
    tmp_path: Path, sandbox: MontySandbox, count: int, allowed: bool
) -> None:
    async def story(here: Place) -> None:
        alice = here.as_("alice")
        for n in range(1, count + 1):
            access = {"contract": f"rule{n + 1}"} if n < count else "private"
            await alice.write(f"rule{n}", kind="contract", content=f"{RULE}return True", access=access)
        await alice.write("x", kind="document", content="x", access={"contract": "rule1"})

        assert (await here.as_("bob").access("x", "read")).allowed is allowed

    in_place(tmp_path, story, interpreter=sandbox)


def test_a_contract_under_itself_denies(tmp_path: Path, sandbox: MontySandbox) -> None:
    async def story(here: Place) -> None:
        alice = here.as_("alice")
        await alice.write("rule", kind="contract", content=f"{RULE}return True", access={"contract": "rule"})

        verdict = await alice.access("rule", "read")

        assert "nested deeper than 10" in verdict.reason

    in_place(tmp_path, story, interpreter=sandbox)


def test_a_contract_is_asked_once_within_a_step(tmp_path: Path, sandbox: MontySandbox) -> None:
    async def story(here: Place) -> None:
        counted = here.interpreter = Counted(sandbox)
        await govern(here, BOBS)
        bob = here.as_("bob", decisions=Decisions())

        for _ in range(5):
            await bob.read("x")
        assert counted.runs == 1
        await bob.access("x", "include")
        await here.as_("eve", decisions=Decisions()).access("x", "read")
        assert counted.runs == 3

        # Within the step too, a new version of the rule or the artifact is a new question.
        await here.as_("alice").write("rule", content=f"{RULE}return False")
        assert not (await bob.access("x", "read")).allowed

    in_place(tmp_path, story, interpreter=sandbox)


def test_a_static_policy_never_starts_the_sandbox(tmp_path: Path, sandbox: MontySandbox) -> None:
    async def story(here: Place) -> None:
        counted = here.interpreter = Counted(sandbox)
        await here.as_("alice").write("x", kind="document", content="secret")
        bob = here.as_("bob")

        await bob.read("x")
        await bob.search("secret")
        await bob.take("x")

        assert counted.runs == 0

    in_place(tmp_path, story)


def test_search_asks_only_about_what_matches_and_at_most_fifty(tmp_path: Path, sandbox: MontySandbox) -> None:
    async def story(here: Place) -> None:
        counted = here.interpreter = Counted(sandbox)
        alice = here.as_("alice")
        await alice.write("rule", kind="contract", content=BOBS)
        await alice.write("open", kind="report", content="x")
        for n in range(60):
            await alice.write(f"doc{n}", kind="document", content="x", access={"contract": "rule"})

        assert [found.id for found in await here.as_("bob").search("doc7")] == ["doc7"]
        assert counted.runs == 1
        counted.runs = 0
        found = await here.as_("eve").list(limit=100)
        assert counted.runs == 50
        assert [one.id for one in found] == ["rule", "open"]

    in_place(tmp_path, story)


def test_strangers_slow_contracts_do_not_stop_a_search(tmp_path: Path, sandbox: MontySandbox) -> None:
    async def story(here: Place) -> None:
        eve = here.as_("eve")
        await here.as_("alice").write("mine", kind="document", content="x")
        await eve.write("rule", kind="contract", content=f"{RULE}while True: pass")
        for n in range(40):
            await eve.write(f"e{n}", kind="document", content="x", access={"contract": "rule"})

        step = Decisions().with_bounds(asks_max=50, time_ms=600)
        from artelier.artifacts.contracts import Gate

        gate = Gate(eve._door.stage(), here.interpreter, step)
        for n in range(40):
            standing = await eve._door.find(f"e{n}")
            assert standing is not None
            assert not (await gate.decide("search", "bob", standing)).allowed
        assert len(step.wall) == 40
        assert step.time_left_s > -0.5  # three of them ran, the others were told

    in_place(tmp_path, story, interpreter=sandbox)


# -- price and payer


def test_a_contract_names_a_price_that_the_caller_must_have_agreed_to(
    tmp_path: Path, sandbox: MontySandbox
) -> None:
    async def story(here: Place) -> None:
        await govern(here, f"{RULE}return {{'allow': True, 'price': 5}}", price=2)
        await here.fund("bob", 10)
        bob = here.as_("bob")

        for price_max in (None, 4):  # silence agrees to what the artifact itself posts
            with pytest.raises(AccessDenied, match="costs more than agreed"):
                await bob.read("x", price_max=price_max)
        assert await here.scrip("bob") == 10
        await bob.read("x", price_max=5)

        assert (await here.scrip("bob"), await here.scrip("alice")) == (5, 5)
        with pytest.raises(InsufficientFunds):
            await here.as_("eve").read("x", price_max=5)

    in_place(tmp_path, story, interpreter=sandbox)


def test_a_contract_may_charge_less_than_is_posted(tmp_path: Path, sandbox: MontySandbox) -> None:
    async def story(here: Place) -> None:
        await govern(here, f"{RULE}return {{'allow': True, 'price': 0}}", price=2)

        assert (await here.as_("bob").read("x")).content == "secret"

    in_place(tmp_path, story, interpreter=sandbox)


def test_the_posted_price_holds_where_a_contract_names_none(tmp_path: Path, sandbox: MontySandbox) -> None:
    async def story(here: Place) -> None:
        await govern(here, f"{RULE}return True", price=2)
        await here.fund("bob", 10)

        await here.as_("bob").read("x")

        assert (await here.scrip("bob"), await here.scrip("alice")) == (8, 2)

    in_place(tmp_path, story, interpreter=sandbox)


def test_the_owner_of_a_contract_may_pay_by_its_own_rule(tmp_path: Path, sandbox: MontySandbox) -> None:
    """A patron pays alice for every reader."""

    async def story(here: Place) -> None:
        rule = f"{RULE}return {{'allow': True, 'price': 2, 'payer': 'patron'}}"
        await govern(here, rule, who="patron")
        await here.fund("patron", 3)

        await here.as_("bob").read("x")
        verdict = await here.as_("bob").access("x", "read")

        assert (await here.scrip("patron"), await here.scrip("alice")) == (1, 2)
        assert verdict.refusal == "no_funds"

    in_place(tmp_path, story, interpreter=sandbox)


def test_a_patrons_money_is_held_for_an_invocation_and_released_when_it_fails(
    tmp_path: Path, sandbox: MontySandbox
) -> None:
    async def story(here: Place) -> None:
        rule = f"{RULE}return {{'allow': True, 'price': 2, 'payer': 'patron'}}"
        await here.as_("patron").write("rule", kind="contract", content=rule)
        code = {"code": "def run(n):\n    return 10 // n"}
        await here.as_("alice").write("x", kind="tool", content=code, access={"contract": "rule"})
        await here.fund("patron", 3)
        bob = here.as_("bob")

        with pytest.raises(InvocationFailed):
            await bob.invoke("x", n=0)
        assert (await here.scrip("patron"), await held(here)) == (3, 0)
        outcome = await bob.invoke("x", n=2)
        assert (outcome.result, outcome.price, outcome.payer) == (5, 2, "patron")
        with pytest.raises(InsufficientFunds):
            await bob.invoke("x", n=2)

        scrip = [await here.scrip(who) for who in ("patron", "alice", "bob")]
        assert (scrip, await held(here), await total(here)) == ([1, 2, 0], 0, 0)

    in_place(tmp_path, story, interpreter=sandbox)


@pytest.mark.parametrize(
    "reply",
    [
        "{'allow': True, 'price': 2, 'payer': 'victim'}",
        "{'allow': True, 'price': 2, 'payer': 'artifact:rule'}",
        "{'allow': True, 'price': 2, 'payer': 'source:x'}",
    ],
)
def test_nobody_pays_who_has_not_agreed(tmp_path: Path, sandbox: MontySandbox, reply: str) -> None:
    async def story(here: Place) -> None:
        await govern(here, f"{RULE}return {reply}")
        await here.fund("victim", 10)

        verdict = await here.as_("bob").access("x", "read", price_max=10)

        assert verdict.refusal == "denied"
        assert "not agreed" in verdict.reason

    in_place(tmp_path, story, interpreter=sandbox)


def test_a_contract_given_to_a_victim_does_not_make_it_pay(tmp_path: Path, sandbox: MontySandbox) -> None:
    """Ownership can be given without asking; only who wrote the rule has agreed to it."""

    async def story(here: Place) -> None:
        await here.fund("victim", 10)
        await govern(here, f"{RULE}return {{'allow': True, 'price': 2, 'payer': 'victim'}}")
        await here.as_("alice").transfer("rule", "victim")

        assert not (await here.as_("bob").access("x", "read")).allowed

    in_place(tmp_path, story, interpreter=sandbox)


def test_somebody_elses_price_is_not_paid_by_a_patron(tmp_path: Path, sandbox: MontySandbox) -> None:
    """The rule names a payer but no price; what the artifact posts is up to its owner."""

    async def story(here: Place) -> None:
        await here.fund("patron", 100)
        rule = f"{RULE}return {{'allow': True, 'payer': 'patron'}}"
        await govern(here, rule, price=100, who="patron")

        assert not (await here.as_("bob").access("x", "read")).allowed

    in_place(tmp_path, story, interpreter=sandbox)


def test_only_accesses_that_can_cost_can_be_priced(tmp_path: Path, sandbox: MontySandbox) -> None:
    async def story(here: Place) -> None:
        await govern(here, f"{RULE}return {{'allow': True, 'price': 1}}")
        await here.fund("bob", 10)

        for action in ("write", "delete", "transfer", "search", "subscribe"):
            assert not (await here.as_("bob").access("x", action, price_max=9)).allowed
        for action in ("read", "include", "invoke"):
            assert (await here.as_("bob").access("x", action, price_max=9)).price == 1

    in_place(tmp_path, story, interpreter=sandbox)


def test_a_contract_that_wants_money_for_being_asked_denies(tmp_path: Path, sandbox: MontySandbox) -> None:
    async def story(here: Place) -> None:
        await here.as_("eve").write(
            "rule", kind="contract", content=f"{RULE}return True", prices={"invoke": 1}
        )
        await here.as_("alice").write("x", kind="document", content="x", access={"contract": "rule"})

        assert "asks a price to be asked" in (await here.as_("bob").access("x", "read")).reason

    in_place(tmp_path, story, interpreter=sandbox)


def test_a_contract_of_another_tenant_is_not_there(tmp_path: Path, sandbox: MontySandbox) -> None:
    async def story(here: Place) -> None:
        other = here.as_("alice", tenant="other")
        await other.write("rule", kind="contract", content=f"{RULE}return True")
        await here.as_("alice").write("x", kind="document", content="x", access={"contract": "rule"})

        assert "is missing" in (await here.as_("bob").access("x", "read")).reason
        with pytest.raises(NotFound):
            await other.read("x")

    in_place(tmp_path, story, interpreter=sandbox)


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("def check(caller):\n    return True", "other arguments"),
        ("def chek(caller, action, target, context):\n    return True", "needs one function"),
        ("def check(a, b, c, d):\n    yield 1", "line 2: yield is not supported"),
        ("import requests\ndef check(a, b, c, d):\n    return True", "line 1: no module"),
        ("def check(a, b, c, d)\n    return True", "not Python"),
        ("class A(object): pass\ndef check(a, b, c, d):\n    return 1", "inheritance"),
    ],
)
def test_a_contract_that_cannot_run_is_refused_when_stored(tmp_path: Path, code: str, what: str) -> None:
    async def story(here: Place) -> None:
        with pytest.raises(InvalidArtifact, match=what):
            await here.as_("alice").write("rule", kind="contract", content=code)

    in_place(tmp_path, story)
