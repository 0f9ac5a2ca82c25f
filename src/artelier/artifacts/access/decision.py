"""The answer to one access: may it be, what does it cost, who pays; and if not, why, as a value.

Read, search, subscription, inclusion in a prompt, invocation and library part all come here.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, cast

from artelier.artifacts.access.bill import Bill, account_of, is_priced
from artelier.artifacts.access.contracts import Gate
from artelier.artifacts.events import ArtifactCharged
from artelier.artifacts.kinds import kind_named
from artelier.artifacts.queries import Standing, VersionRow
from artelier.artifacts.ref import Ref
from artelier.artifacts.write.state import Licence, Royalty, Stage
from artelier.errors import AccessDenied, ArtelierError, InsufficientFunds, InvalidArtifact, NotFound
from artelier.ledger import Posting
from artelier.money import SCRIP

Refusal = Literal["missing", "denied", "no_funds"]


class Verdict(NamedTuple):
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


async def permit(stage: Stage, gate: Gate, ref: Ref, action: str, principal: str) -> Verdict:
    """Decide one access over a stage, whatever its price. Every refusal is a value."""
    standing = await stage.standing(ref.id, version=ref.version)
    if standing is None or standing.deleted:
        text = f"no artifact {ref.id}" if standing is None else f"artifact {ref.id} was deleted"
        return _refuse(Verdict(ref, action, principal), NotFound(text), "missing")
    decision = await gate.decide(action, principal, standing)
    licence = None
    # To subscribe is to be shown it in prompts later, which is what a licence is for.
    if (is_priced(action) or action == "subscribe") and (not decision.allowed or decision.price):
        licence = await stage.licence(ref.id, principal)
    if licence is not None:
        return Verdict(
            ref, action, principal, None, f"licence {licence.name}", 0, principal, standing, licence=licence
        )
    verdict = Verdict(
        ref, action, principal, None, decision.reason, decision.price, decision.payer or principal, standing
    )
    if decision.allowed:
        return verdict
    text = f"{principal} may not {action} artifact {ref.id}: {decision.reason}"
    return _refuse(verdict, AccessDenied(text, artifact=ref.id), "denied")


async def judge(
    stage: Stage, gate: Gate, ref: Ref, action: str, principal: str, *, price_max: int | None = None
) -> Verdict:
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
        return _refuse(verdict, _no_funds(payer, price, have), "no_funds")
    return verdict._replace(royalty=await stage.royalty(ref.id))


def _refuse(verdict: Verdict, error: ArtelierError, refusal: Refusal) -> Verdict:
    return verdict._replace(refusal=refusal, reason=error.message, error=error)


def _no_funds(payer: str, price: int, have: int) -> InsufficientFunds:
    account = account_of(payer)
    return InsufficientFunds(
        f"account {account} cannot pay",
        expected=f"at least {price} {SCRIP}",
        got=f"{have} {SCRIP}",
        account=account,
        asset=SCRIP,
        have=have,
        need=price,
    )


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


def part_of(standing: Standing, content: Any, part: str | None) -> Any:
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
        parts = _by_id(cast("list[Any]", parts))
    if not isinstance(parts, dict) or part not in parts:
        raise NotFound(f"artifact {standing.id} has no part {part}")
    return cast("dict[str, Any]", parts)[part]


def _by_id(listed: list[Any]) -> dict[str, Any]:
    named = [cast("dict[str, Any]", one) for one in listed if isinstance(one, dict)]
    return {one["id"]: one for one in named if isinstance(one.get("id"), str)}
