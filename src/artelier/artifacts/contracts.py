"""Contracts: executable artifacts that decide who may do what with other artifacts.

A contract is pure: it gets facts by value and no function of the host. What is missing, broken, too slow, of
another kind or answers in another shape denies (I10). The interpreter runs it between two host decisions, so
contracts over contracts hold no worker while they wait.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Literal, NamedTuple, Protocol, cast

from artelier.artifacts.access import (
    CHANGING,
    PRICE_MAX,
    RULED,
    Access,
    AccessDecision,
    Bill,
    Governed,
    account_of,
    check_principal,
    is_priced,
)
from artelier.artifacts.content import decode_content
from artelier.artifacts.events import ArtifactCharged
from artelier.artifacts.kinds import CONTRACT, code_of, kind_named
from artelier.artifacts.queries import Standing, VersionRow
from artelier.artifacts.ref import Ref, safe_repr
from artelier.artifacts.working_state import Licence, Royalty, Stage, facts_of
from artelier.errors import (
    AccessDenied,
    ArtelierError,
    CorruptStore,
    InvalidArtifact,
    InvalidRequest,
    NotFound,
)
from artelier.ledger import Posting, no_funds
from artelier.money import SCRIP
from artelier.ports.sandbox import SandboxLimits, SandboxResult
from artelier.sandbox import SandboxError

DEPTH_MAX = 10
"""Contracts over each other."""

ASKS_MAX = 1_000
"""Contracts run within one step (guess: more than any prompt has parts); from then on they deny."""

TIME_MS_MAX = 10_000
"""Wall time of all contracts of one step: those of strangers must not stop a step that only looks around."""

LIMITS = SandboxLimits(time_ms=250, memory_bytes=16 * 1024 * 1024, output_bytes=16 * 1024, depth=100)
"""Of one contract (guess: a rule needs far less than a tool)."""

REASON_CHARS_MAX = 200

PLACE_CHARS_MAX = 60

WALL = ("timeout", "crashed")
"""Ends of a run that another machine might not see: these are facts to be recorded."""

_CALL = "\ncheck(caller, action, target, context)\n"
_KEYS = frozenset(("allow", "price", "payer", "reason"))


class Interpreter(Protocol):
    """An interpreter of untrusted code; `MontySandbox` is one."""

    async def run(
        self,
        code: str,
        *,
        inputs: Mapping[str, Any] | None = None,
        functions: Mapping[str, Any] | None = None,
        limits: SandboxLimits | None = None,
        at_us: int | None = None,
        seed: int | str = 0,
    ) -> SandboxResult: ...


class Decisions:
    """The decisions of contracts within one step, each asked once, and those that ended by the wall clock."""

    def __init__(
        self,
        *,
        facts: Mapping[str, Any] | None = None,
        asks_max: int = ASKS_MAX,
        time_ms: int = TIME_MS_MAX,
        recorded: Mapping[str, str] | None = None,
    ) -> None:
        """`facts` go into every contract's `context` and must not change within the step. `recorded` is
        the `wall` of an earlier, recorded step: with it, what ended then ends again and nothing else does."""
        self.facts = dict(facts or {})
        self.asks_left = asks_max
        self.time_left_s = time_ms / 1_000
        self.wall: dict[str, str] = {}
        self.recorded = recorded
        self.known: dict[_ContractQuestion, _ContractReply] = {}

    def with_bounds(self, *, asks_max: int, time_ms: int) -> Decisions:
        """The same step, and what is known in it, with tighter bounds for one page of answers."""
        page = Decisions(facts=self.facts, asks_max=asks_max, time_ms=time_ms)
        page.wall, page.recorded, page.known = self.wall, self.recorded, self.known
        return page

    def apart(self) -> Decisions:
        """Another step of the same facts, with bounds and a `wall` of its own: what is known is shared.

        So nobody can use up what somebody else may ask.
        """
        step = Decisions(facts=self.facts)
        step.known = self.known
        return step

    def answer(self, question: _ContractQuestion, place: str) -> AccessDecision | None:
        """Return what is known already. If that ended by the wall clock, it is in the `wall` of this step
        too.
        """
        known = self.known.get(question)
        if known is None:
            return None
        if known.wall:
            self.wall[place] = known.wall
        return known.decision


class _ContractReply(NamedTuple):
    """The answer of a contract, or the reason why it ended by the wall clock."""

    decision: AccessDecision
    wall: str


class _ContractQuestion(NamedTuple):
    """All that a contract's answer may depend on within a step.

    The rule is named by its content: a version may be written, dropped with a failed invocation, and
    written anew with other code.
    """

    action: str
    principal: str
    target: str
    version: int
    kind: str
    creator: str
    owner: str
    prices: tuple[int, int, int]
    contract: str
    rule: str
    contract_owner: str
    contract_writer: str

    @classmethod
    def about(cls, action: str, principal: str, target: Standing, contract: Standing) -> _ContractQuestion:
        at, prices = contract.at, target.prices
        assert at is not None
        return cls(
            action,
            principal,
            target.id,
            target.version,
            target.kind,
            target.creator,
            target.owner,
            (prices.read, prices.invoke, prices.inclusion),
            contract.id,
            at.content,
            contract.owner,
            at.writer,
        )


async def static_decision(stage: Stage, action: str, principal: str, target: Governed) -> AccessDecision:
    """Return what a policy that asks no contract says; membership is looked up only where it matters."""
    decision, access = Access.check(action, principal, target), target.access
    if decision.allowed or access is None or not access.groups(action):
        return decision
    return Access.check(action, principal, target, await stage.groups(principal))


class Gate:
    """Decides accesses over a stage. A static policy costs no more than looking at its row."""

    def __init__(
        self, stage: Stage, interpreter: Interpreter | None, decisions: Decisions | None = None
    ) -> None:
        self._stage = stage
        self._interpreter = interpreter
        self._decisions = decisions or Decisions()

    async def decide(self, action: str, principal: str, target: Standing) -> AccessDecision:
        """Return whether a principal may do something with an artifact as it stands, and at which price."""
        locked = self._stage.lock_reason(target)
        if locked and action in CHANGING:
            return AccessDecision(False, locked)
        decision = await self._decide(action, principal, target, depth=0)
        if locked and decision.price:
            return AccessDecision(False, locked)  # whoever owns it for now must not earn with it
        return decision

    async def _decide(self, action: str, principal: str, target: Standing, *, depth: int) -> AccessDecision:
        access = target.access
        if access is None or access.policy != "contract" or action not in RULED:
            return await static_decision(self._stage, action, principal, target)
        name = access.contract or ""
        if depth >= DEPTH_MAX:
            return AccessDecision(False, f"contracts are nested deeper than {DEPTH_MAX}")
        if self._interpreter is None:
            return Access.check(action, principal, target)
        contract = await self._stage.standing(name)
        problem = _unusable(contract)
        if contract is None or problem:
            return AccessDecision(False, f"its contract {name} {problem}")
        # Whoever put the artifact under this contract must be allowed to use it.
        use = await self._decide("invoke", target.owner, contract, depth=depth + 1)
        if not use.allowed:
            return AccessDecision(False, f"its contract {name} is not for its owner: {use.reason}")
        if use.price:
            return AccessDecision(False, f"its contract {name} asks a price to be asked")
        return await self._ask(action, principal, target, contract)

    async def _ask(self, action: str, principal: str, target: Standing, contract: Standing) -> AccessDecision:
        step, price = self._decisions, Bill.price(action, target, principal)
        question = _ContractQuestion.about(action, principal, target, contract)
        place = _place(question, contract.version)
        known = step.answer(question, place)
        if known is not None:
            return known
        if step.asks_left <= 0:
            return AccessDecision(False, "too many contracts were asked in this step")
        step.asks_left -= 1
        if step.recorded is None and step.time_left_s <= 0:
            # That is about this step, not about the contract: no other step may know it.
            step.wall[place] = "timeout"
            return AccessDecision(False, "the contracts of this step took too long")
        wall, started = "", time.perf_counter()
        try:
            reply = await self._run(action, principal, target, contract, price=price, place=place)
            decision = _decision_of(reply, action, principal, target, contract)
        except SandboxError as error:
            if error.reason in WALL:
                wall = step.wall[place] = error.reason
            decision = AccessDecision(False, f"its contract {contract.id} failed: {error.reason}")
        except (NotFound, CorruptStore, InvalidRequest) as error:
            decision = AccessDecision(False, f"its contract {contract.id} is broken: {error.code}")
        step.time_left_s -= time.perf_counter() - started
        step.known[question] = _ContractReply(decision, wall)
        return decision

    async def _run(
        self, action: str, principal: str, target: Standing, contract: Standing, *, price: int, place: str
    ) -> object:
        step, at = self._decisions, contract.at
        assert at is not None and self._interpreter is not None
        if step.recorded is not None and place in step.recorded:
            raise SandboxError("as recorded", reason=cast(Any, step.recorded[place]))
        code = code_of(decode_content(at.media, await self._stage.blob(at.content)))
        if code is None:
            raise SandboxError("it holds no code", reason="syntax")
        context = {**step.facts, "at": self._stage.at_us, "space": self._stage.space, "price": price}
        inputs = {"caller": principal, "action": action, "target": facts_of(target), "context": context}
        limits = LIMITS if step.recorded is None else UNHURRIED
        return (await self._interpreter.run(code + _CALL, inputs=inputs, limits=limits)).value


UNHURRIED = SandboxLimits(
    time_ms=10_000, memory_bytes=LIMITS.memory_bytes, output_bytes=LIMITS.output_bytes, depth=LIMITS.depth
)
"""For a replay: what did not time out then must not now."""


def _place(question: _ContractQuestion, contract_version: int) -> str:
    """A question in `wall`, the same in a replay; short, since there may be many."""
    asked = f"{question.action}:{question.principal}:{question.target}@{question.version}"
    if len(asked) > PLACE_CHARS_MAX:
        asked = sha256(asked.encode()).hexdigest()[:PLACE_CHARS_MAX]
    return f"{question.contract}@{contract_version}?{asked}"


def _unusable(contract: Standing | None) -> str:
    if contract is None or contract.deleted or contract.at is None:
        return "is missing"
    return "" if contract.kind == CONTRACT else f"is a {contract.kind}, no contract"


def _decision_of(
    reply: object, action: str, principal: str, target: Standing, contract: Standing
) -> AccessDecision:
    """A contract's reply as a decision. Every shape but the declared ones denies."""
    name = contract.id
    if isinstance(reply, bool):
        reply = {"allow": reply}
    if not isinstance(reply, dict):
        return AccessDecision(False, f"its contract {name} answers {safe_repr(reply)}, not a boolean or dict")
    ruling = cast("dict[str, Any]", reply)
    allow, reason = ruling.get("allow"), ruling.get("reason", "")
    price = ruling.get("price", Bill.price(action, target, principal))
    payer = ruling.get("payer", principal)
    if (
        not set(ruling) <= _KEYS
        or not isinstance(allow, bool)
        or not isinstance(reason, str)
        or type(price) is not int
        or not 0 <= price <= PRICE_MAX
        or not _is_principal(payer)
    ):
        return AccessDecision(
            False, f"its contract {name} answers in no known shape: {safe_repr(cast(object, ruling))}"
        )
    said = f"contract {name}" + (f": {reason[:REASON_CHARS_MAX]}" if reason else "")
    if not allow:
        return AccessDecision(False, f"its {said} says no" if not reason else f"its {said}")
    if payer != principal and not ("price" in ruling and _has_agreed(payer, contract)):
        return AccessDecision(False, f"its contract {name} names a payer who has not agreed")
    if price and not is_priced(action):
        return AccessDecision(False, f"its contract {name} asks a price for {action}, which has none")
    price = 0 if payer == target.owner else price
    return AccessDecision(True, said, price, payer)


def _is_principal(value: object) -> bool:
    try:
        check_principal(value)
    except InvalidRequest:
        return False
    return True


def _has_agreed(payer: str, contract: Standing) -> bool:
    """The owner agrees by having written the rule, with a price of its own (what the artifact asks is up to
    somebody else). To be given a contract is no agreement to its rules."""
    return payer == contract.owner and contract.at is not None and contract.at.writer == payer


# --------------------------------------------------------------------------- decision
# The answer to one access: may it be, what does it cost, who pays; and if not, why, as a value.
#
# Read, search, subscription, inclusion in a prompt, invocation and library part all come here.

Refusal = Literal["missing", "denied", "no_funds"]


class AccessVerdict(NamedTuple):
    """`refusal` None means yes. A caller that must not raise looks at it; others call `granted`."""

    ref: Ref
    action: str
    principal: str
    refusal: Refusal | None = None
    reason: str = ""
    price: int = 0
    payer: str = ""
    standing: Standing | None = None
    error: ArtelierError | None = None
    royalty: Royalty | None = None
    licence: Licence | None = None
    """What allowed it, if its policy or its price would not have."""

    @property
    def allowed(self) -> bool:
        return self.refusal is None

    def granted(self) -> Standing:
        """Return what stands there. Errors: `NotFound`, `AccessDenied`, `InsufficientFunds`."""
        if self.error is not None:
            raise self.error
        assert self.standing is not None
        return self.standing

    @property
    def postings(self) -> tuple[Posting, ...]:
        """The postings made when the access takes place."""
        if self.standing is None or not self.allowed:
            return ()
        return Bill.movement(self.payer, self.standing.owner, self.price, self.royalty)

    def charge(self) -> ArtifactCharged | None:
        """The event that moves the price, for the batch of whatever uses the access; None if it is free."""
        standing, licence = self.granted(), self.licence
        if not self.postings and not (licence and licence.is_counted):
            return None
        at = standing.at
        return ArtifactCharged(
            id=standing.id,
            version=at.version if at else standing.version,
            action=self.action,
            payer=self.payer,
            licence=licence.name if licence else "",
            postings=self.postings,
        )


async def permit(stage: Stage, gate: Gate, ref: Ref, action: str, principal: str) -> AccessVerdict:
    """Decide one access over a stage, whatever its price. Every refusal is a value."""
    standing = await stage.standing(ref.id, version=ref.version)
    if standing is None or standing.deleted:
        text = f"no artifact {ref.id}" if standing is None else f"artifact {ref.id} was deleted"
        return _refuse(AccessVerdict(ref, action, principal), NotFound(text), "missing")
    decision = await gate.decide(action, principal, standing)
    licence = None
    # To subscribe is to be shown it in prompts later, which is what a licence is for.
    if (is_priced(action) or action == "subscribe") and (not decision.allowed or decision.price):
        licence = await stage.licence(ref.id, principal)
    if licence is not None:
        return AccessVerdict(
            ref, action, principal, None, f"licence {licence.name}", 0, principal, standing, licence=licence
        )
    verdict = AccessVerdict(
        ref, action, principal, None, decision.reason, decision.price, decision.payer or principal, standing
    )
    if decision.allowed:
        return verdict
    text = f"{principal} may not {action} artifact {ref.id}: {decision.reason}"
    return _refuse(verdict, AccessDenied(text, artifact=ref.id), "denied")


async def judge(
    stage: Stage, gate: Gate, ref: Ref, action: str, principal: str, *, price_max: int | None = None
) -> AccessVerdict:
    """Decide one access over a stage, its price and whether that can be paid included.

    Units:  `price_max` is the scrip the principal agrees to. None agrees to the price that the artifact
            itself posts; a contract that asks more needs more than silence.
    Errors: none of policy; every refusal is a value.
    """
    verdict = await permit(stage, gate, ref, action, principal)
    standing, price, payer = verdict.standing, verdict.price, verdict.payer
    if standing is None or not verdict.allowed:
        return verdict
    try:
        version_at(standing, ref)
    except NotFound as missing:
        return _refuse(verdict, missing, "missing")
    agreed = Bill.posted_price(action, standing) if price_max is None else price_max
    if payer == principal and price > agreed:
        error = AccessDenied(
            f"artifact {ref.id} costs more than agreed",
            expected=f"at most {agreed} scrip",
            got=f"{price} scrip",
            artifact=ref.id,
        )
        return _refuse(verdict, error, "denied")
    if not price:
        return verdict
    if (have := await stage.balance(account_of(payer))) < price:
        return _refuse(verdict, no_funds(account_of(payer), SCRIP, have=have, need=price), "no_funds")
    return verdict._replace(royalty=await stage.royalty(ref.id))


def _refuse(verdict: AccessVerdict, error: ArtelierError, refusal: Refusal) -> AccessVerdict:
    return verdict._replace(refusal=refusal, reason=error.message, error=error)


def version_at(standing: Standing, ref: Ref) -> VersionRow:
    """The version that a ref names. Errors: `NotFound`."""
    at = standing.at
    if at is None:
        raise NotFound(f"artifact {ref.id} has no version {ref.version}", expected=f"1 to {standing.version}")
    if at.version < standing.kept_from:
        raise NotFound(
            f"version {at.version} of artifact {ref.id} was pruned",
            expected=f"{standing.kept_from} to {standing.version}",
        )
    return at


def part_of(standing: Standing, content: object, part: str | None) -> object:
    """A named part of a library, all of the content without a name. Errors: `NotFound`.

    Parts are under their names in an object, or have them as `id` in a list.
    """
    if part is None:
        return content
    try:
        holder = kind_named(standing.kind).parts
    except InvalidArtifact:
        holder = None  # a kind that nobody registered here has no parts that we know of
    parts: object = content.get(holder) if holder and isinstance(content, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - JSON
    if isinstance(parts, list):
        parts = _by_id(cast("list[object]", parts))
    if not isinstance(parts, dict) or part not in parts:
        raise NotFound(f"artifact {standing.id} has no part {part}")
    return cast("dict[str, Any]", parts)[part]


def _by_id(listed: list[object]) -> dict[str, Any]:
    named = [cast("dict[str, Any]", one) for one in listed if isinstance(one, dict)]
    return {one["id"]: one for one in named if isinstance(one.get("id"), str)}
