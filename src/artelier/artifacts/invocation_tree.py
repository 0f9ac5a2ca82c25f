"""Executable artifacts: one tree of invocations over a stage, from the outermost to the deepest.

Each invocation works in a working state of its own, over that of its caller. It is absorbed when the code
succeeds and dropped when it fails, so what a failed invocation did never was. Nothing is appended here: see
`invocation_store.py` for the store, and hand in another stage for a world.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from artelier.artifacts.access import Bill, account_of, check_principal
from artelier.artifacts.content import canonical_json, decode_content
from artelier.artifacts.contracts import WALL, AccessVerdict, Decisions, Gate, Interpreter, judge, version_at
from artelier.artifacts.events import ArtifactInvoked
from artelier.artifacts.kinds import EntryProgram, check_call, program_of, runnable_code
from artelier.artifacts.queries import Standing
from artelier.artifacts.ref import ACTORS, Ref, check_new_id
from artelier.artifacts.working_state import Stage, Working
from artelier.errors import AccessDenied, External, Flow, InvalidArguments, InvalidArtifact, InvalidRequest
from artelier.ledger import Posting
from artelier.money import SCRIP
from artelier.ports.sandbox import SandboxLimits
from artelier.sandbox import SandboxError

HOLD = "hold:invoke:"
"""Accounts on which prices wait for the end of invocations: one per payer, so that nobody's hold can be paid
out of another's."""

ROOT = "0"
"""The place of the outermost invocation in its tree; its third nested one is `0.3`."""

ORIGIN_CHARS = 200
"""By so much of its beginning a nested failure is known again; the sandbox's wall cuts the rest."""

UNHURRIED_MS = 10_000
"""Time of a run that is replayed: what was in time then must not be late now."""


class InvocationLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one tree of invocations."""

    depth: int = 10
    """Invocations within each other."""
    calls: int = 200
    """Calls of helpers over the whole tree."""
    time_ms: int = 5_000
    """Wall time of the whole tree; looked at before each run and each call of a helper."""
    run_ms: int = 1_000
    """Time of code between two calls of helpers."""
    memory_bytes: int = 32 * 1024 * 1024
    arguments_bytes: int = 64 * 1024
    result_bytes: int = 64 * 1024
    crossing_bytes: int = 256 * 1024
    """JSON of one value that a helper takes or gives."""
    writes: int = 50
    written_bytes: int = 1024 * 1024
    """Content written over the whole tree, failed parts included."""


class InvocationFailed(External):
    """An executable artifact came to no result, and nothing of what it did is left.

    `reason`: a reason of the sandbox, `time` or `calls` for the bounds of the tree, `depth`, `arguments`,
    `result`. `wall` are ends by the wall clock that a replay must be given.
    """

    code = "invocation_failed"
    audience = "agent"

    def __init__(self, message: str, *, reason: str) -> None:
        # Code may raise text that is no Unicode; it must not break the record of its failure.
        super().__init__(message.encode(errors="replace").decode(), reason=reason)
        self.reason = reason
        self.wall: dict[str, str] = {}


class BudgetSpent(Flow):
    """A bound of the whole tree was reached: no code inside may catch this."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class Call(NamedTuple):
    """One invocation. `caller` is the immediate one and cannot be chosen by the code that calls."""

    caller: str
    id: str
    args: Mapping[str, Any]
    price_max: int | None = None
    depth: int = 1
    place: str = ROOT


class Admitted(NamedTuple):
    """An invocation that may begin."""

    call: Call
    verdict: AccessVerdict
    standing: Standing
    code: str
    """Empty for a service."""
    args: dict[str, Any]


class Free(NamedTuple):
    """A result of a service that asks nothing for it."""

    value: Any


class Service(Protocol):
    """A part of the host that is invoked like a program, at the price of its artifact."""

    def units(self, args: Mapping[str, Any], /) -> int:
        """Return how often a call with these arguments costs the posted price. Errors: `InvalidArguments`."""
        ...

    async def run(self, working: Working, call: Call, tree: Tree, /) -> object:
        """Return the result as JSON data, within `Free` if it costs nothing; changes go into `working`.

        It acts for `call.caller`.

        `tree.gate(working)` decides accesses, contracts included.

        Errors: any `ArtelierError`; then nothing of the call is left, and its price is not paid.
        """
        ...


class MemorySearch(Protocol):
    """A higher layer's implementation of `search_memory(...)`; it acts as `principal`, over `working`."""

    def __call__(
        self, working: Working, principal: str, tree: Tree, /, *args: Any, **kwargs: Any
    ) -> Awaitable[object]: ...


class PricesSeen(Protocol):
    """The prices in the state that the thought behind an invocation saw."""

    async def __call__(self, principal: str, action: str, id: str, /) -> int | None:
        """Return the most that a principal agrees to pay by naming an artifact; None: its price now."""
        ...


Helpers = Callable[["Tree", Working, Call], Mapping[str, Callable[..., Awaitable[Any]]]]


def principal_of(id: str) -> str:
    """Return whom an executable artifact acts as. No id begins so, hence nobody else is called this."""
    return f"{ACTORS}{id}"


def to_hold(payer: str, price: int) -> Posting:
    """Set a price aside."""
    return Posting(account_of(payer), HOLD + payer, SCRIP, price)


def from_hold(payer: str, to: str, price: int) -> Posting:
    """Settle a price with its receiver, or release it to its payer."""
    return Posting(HOLD + payer, account_of(to), SCRIP, price)


class Tree:
    """One tree of invocations and what is left of its bounds."""

    def __init__(
        self,
        interpreter: Interpreter | None,
        helpers: Helpers,
        *,
        limits: InvocationLimits | None = None,
        decisions: Decisions | None = None,
        search_memory: MemorySearch | None = None,
        services: Mapping[str, Service] | None = None,
        prices_seen: PricesSeen | None = None,
        seed: str = "",
    ) -> None:
        """`decisions` may be shared with the rest of a step; `seed` is that of `random` in the code.

        `services` by the id of their artifact, which posts what they cost. `prices_seen` caps whoever says
        no `price_max`.
        """
        self.interpreter = interpreter
        self.limits = limits or InvocationLimits()
        self.decisions = decisions or Decisions()
        self.search_memory = search_memory
        self.services = services or {}
        self.origin = ""
        """The newest failure of a nested invocation."""
        self.started = False
        """Whether any code was about to run."""
        self.calls = 0
        self.writes = 0
        self.written_bytes = 0
        self._helpers = helpers
        self._prices_seen = prices_seen
        self._seed = seed
        self._started = time.perf_counter()

    def gate(self, stage: Stage) -> Gate:
        return Gate(stage, self.interpreter, self.decisions)

    async def agreed_price(self, call: Call, action: str, id: str) -> int | None:
        """Return the most that a caller without a cap of its own pays for an access; None: what is posted."""
        if self._prices_seen is None:
            return None
        return await self._prices_seen(call.caller, action, id)

    def spend_call(self) -> None:
        """Errors: `BudgetSpent`."""
        self.calls += 1
        if self.calls > self.limits.calls:
            raise BudgetSpent("calls", f"more than {self.limits.calls} calls in one invocation")
        self.check_time()

    def check_time(self) -> None:
        """Errors: `BudgetSpent`. A replay has all the time it needs: when it ended is recorded."""
        late_ms = (time.perf_counter() - self._started) * 1_000
        if self.decisions.recorded is None and late_ms > self.limits.time_ms:
            self.decisions.wall[ROOT] = "time"
            raise BudgetSpent("time", f"the invocation took longer than {self.limits.time_ms} ms")

    async def act(self, below: Working, call: Call) -> object:
        """The outermost invocation, as a world's action does it: its result, its effects in `below`.

        Errors: those of `perform`, and `InvocationFailed` with `wall` for the bounds of the tree too.
        """
        try:
            return await self.perform(below, call)
        except (InvocationFailed, BudgetSpent) as error:
            raise self.failure(error, call) from None

    def failure(self, error: InvocationFailed | BudgetSpent, call: Call) -> InvocationFailed:
        """Return why the tree failed, with what a replay must know of it."""
        if isinstance(error, BudgetSpent):
            error = InvocationFailed(f"artifact {call.id} failed: {error}", reason=error.reason)
        error.wall = dict(self.decisions.wall)
        return error

    async def perform(self, below: Working, call: Call) -> object:
        """Invoke within a working state, which takes over what the invocation did if it succeeds.

        Errors: those of `admit` and `run`, `InsufficientFunds`, `BudgetSpent`; then `below` is as it was.
        """
        admitted = await self.admit(below, call)
        working = Working(below)
        verdict = admitted.verdict
        if verdict.price:
            # Held, so that nothing nested can spend it twice.
            await working.move((to_hold(verdict.payer, verdict.price),))
        result = await self.run(working, admitted)
        if verdict.price:
            await working.move((from_hold(verdict.payer, verdict.payer, verdict.price),))
        if isinstance(result, Free):
            verdict, result = verdict._replace(price=0), result.value
        done = ArtifactInvoked(
            id=call.id,
            version=admitted.standing.version,
            caller=call.caller,
            outcome="done",
            price=verdict.price,
            payer=verdict.payer if verdict.price else "",
            postings=Bill.movement(verdict.payer, admitted.standing.owner, verdict.price, verdict.royalty),
        )
        if verdict.licence is not None and (used := verdict.charge()) is not None:
            await working.apply(used, actor=call.caller)
        await working.apply(done, actor=call.caller)
        below.absorb(working)
        return result

    def service_of(self, standing: Standing | None) -> Service | None:
        """The part of the host that an artifact stands for.

        It must own itself: whoever else writes an artifact of this id has written one of its own.
        """
        if standing is None or standing.owner != standing.id:
            return None
        return self.services.get(standing.id)

    async def admit(self, stage: Stage, call: Call) -> Admitted:
        """Return whether an invocation may begin, and at which price; nothing is moved.

        Errors: `NotFound`, `AccessDenied`, `InsufficientFunds`, `InvalidArtifact` for what is no program,
        `InvalidArguments`, `InvocationFailed` beyond the depth.
        """
        if call.depth > self.limits.depth:
            raise InvocationFailed(f"invocations are nested deeper than {self.limits.depth}", reason="depth")
        ref = Ref(check_new_id(call.id))
        service = self.service_of(await stage.standing(call.id))
        price_max = None
        if service is None:  # the posted price of a service is that of one unit
            price_max = call.price_max
            if price_max is None:
                price_max = await self.agreed_price(call, "invoke", call.id)
        verdict = await judge(
            stage, self.gate(stage), ref, "invoke", check_principal(call.caller), price_max=price_max
        )
        standing = verdict.granted()
        if service is not None:
            args = self._arguments(call.args)
            verdict = await self._for_units(stage, verdict, call, service.units(args))
            return Admitted(call, verdict, standing, "", args)
        at = version_at(standing, ref)
        content = decode_content(at.media, await stage.blob(at.content))
        code = runnable_code(standing.kind, content)
        if code is None:
            raise InvalidArtifact(
                f"artifact {call.id} cannot be invoked",
                expected="a tool whose content is {code: text with `def run(...)`}",
                got=standing.kind,
            )
        program: EntryProgram = program_of(code)
        args = self._arguments(call.args)
        interface: object = None
        if at.interface is not None:
            interface = decode_content("json", await stage.blob(at.interface))
        check_call(program, args, interface)
        return Admitted(call, verdict, standing, code, args)

    async def run(self, working: Working, admitted: Admitted) -> object:
        """Run admitted code in a working state of its own; its result, which a service may give as `Free`.

        Errors: `InvocationFailed`; `BudgetSpent` when a bound of the whole tree was reached.
        """
        self.started = True
        call, decisions = admitted.call, self.decisions
        if (service := self.service_of(admitted.standing)) is not None:
            result = await service.run(working, call._replace(args=admitted.args), self)
            self._check_result(call, result.value if isinstance(result, Free) else result)
            return result
        if decisions.recorded is not None and (then := decisions.recorded.get(call.place)):
            decisions.wall[call.place] = then
            if call.place == ROOT and then == "time":
                raise BudgetSpent("time", "the invocation took too long when it was recorded")
            raise InvocationFailed(f"artifact {call.id} failed as recorded: {then}", reason=then)
        self.check_time()
        if self.interpreter is None:
            raise InvocationFailed("there is no sandbox to run this in", reason="crashed")
        try:
            done = await self.interpreter.run(
                f"{admitted.code}\nrun(**args_)\n",
                inputs={"args_": admitted.args, "caller": call.caller},
                functions=self._helpers(self, working, call),
                limits=self._sandbox_limits(),
                at_us=working.at_us,
                seed=f"{self._seed}/{call.place}",
            )
        except SandboxError as error:
            if error.reason in WALL:
                decisions.wall[call.place] = error.reason
            raise InvocationFailed(self._why(call, error), reason=error.reason) from None
        except InvalidRequest as error:
            # What the host gave could not cross; the code has no hand in that.
            text = f"artifact {call.id} failed: {error.message}"
            raise InvocationFailed(text, reason="result") from None
        self._check_result(call, done.value)
        return done.value

    async def _for_units(self, stage: Stage, verdict: AccessVerdict, call: Call, units: int) -> AccessVerdict:
        """The price of so many units. Errors: `AccessDenied` above what was agreed, `InsufficientFunds`."""
        price = verdict.price * units
        if call.price_max is not None and price > call.price_max:
            raise AccessDenied(
                f"{call.id} costs more than agreed",
                expected=f"at most {call.price_max} scrip",
                got=f"{price} scrip",
            )
        if price > verdict.price:
            await Working(stage).move((to_hold(verdict.payer, price),))
        return verdict._replace(price=price)

    def _why(self, call: Call, error: SandboxError) -> str:
        """Return the message of the innermost artifact, for a failure that went through several."""
        if self.origin and self.origin[:ORIGIN_CHARS] in error.message:
            return self.origin
        return f"artifact {call.id} failed: {error.message}"

    def _check_result(self, call: Call, result: object) -> None:
        try:
            size = len(canonical_json(result))
        except InvalidArtifact as error:
            text = f"the result of {call.id} cannot be kept: {error.message}"
            raise InvocationFailed(text, reason="result") from None
        if size > self.limits.result_bytes:
            raise InvocationFailed(
                f"the result of {call.id} has {size} bytes, more than {self.limits.result_bytes}",
                reason="result",
            )

    def _sandbox_limits(self) -> SandboxLimits:
        limits, is_replay = self.limits, self.decisions.recorded is not None
        return SandboxLimits(
            time_ms=UNHURRIED_MS if is_replay else limits.run_ms,
            memory_bytes=limits.memory_bytes,
            output_bytes=limits.crossing_bytes,
        )

    def _arguments(self, args: Mapping[str, Any]) -> dict[str, Any]:
        try:
            size = len(canonical_json(dict(args)))
        except InvalidArtifact as error:
            raise InvalidArguments(
                f"arguments are JSON data: {error.message}", expected=error.expected
            ) from None
        if size > self.limits.arguments_bytes:
            raise InvalidArguments(
                "the arguments are too large",
                expected=f"at most {self.limits.arguments_bytes} bytes",
                got=size,
            )
        return dict(args)


def check_price_max(value: object) -> int | None:
    """Errors: `InvalidArguments`."""
    if value is None or (type(value) is int and value >= 0):
        return value
    raise InvalidArguments("invalid price_max", expected="scrip, a number from 0, or nothing")
