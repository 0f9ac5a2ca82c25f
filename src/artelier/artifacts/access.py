"""Access to artifacts: grants, prices and licences."""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Protocol, cast

import msgspec

from artelier.artifacts.ref import RESERVED, check_new_id, safe_repr
from artelier.errors import InvalidArtifact, InvalidRequest
from artelier.ledger import Posting
from artelier.money import SCRIP

# --------------------------------------------------------------------------- bill
# The one billing path: what an access costs, who pays, and the postings that move it.

PRICE_MAX = 10**12
"""Scrip per access (guess: far above any world's money, so that sums stay within 64 bits)."""

_PRICED = {"read": "read", "invoke": "invoke", "include": "inclusion"}
"""Which price an action costs; all other actions are free."""


def is_priced(action: str) -> bool:
    """Return True if an access of this kind can cost anything."""
    return action in _PRICED


class AccessPrices(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The owner's prices for others per access, in whole scrip."""

    read: int = 0
    invoke: int = 0
    inclusion: int = 0
    """Per prompt that contains it."""


class _StrictPrices(AccessPrices, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prices at the door: an unknown field is a mistake."""


class Priced(Protocol):
    @property
    def owner(self) -> str: ...

    @property
    def prices(self) -> AccessPrices: ...


def account_of(principal: str) -> str:
    """The account of a principal: with a prefix, so that no id can name a mint, a hold or a source."""
    return f"principal:{principal}"


def check_prices(value: object) -> AccessPrices:
    """Prices from themselves or a mapping. Errors: `InvalidArtifact`."""
    try:
        given = msgspec.to_builtins(value) if isinstance(value, AccessPrices) else value
        strict = msgspec.convert(given, _StrictPrices)
    except msgspec.ValidationError as error:
        raise InvalidArtifact(
            f"invalid prices: {error}", expected="{read, invoke, inclusion}", got=safe_repr(value)
        ) from None
    prices = AccessPrices(read=strict.read, invoke=strict.invoke, inclusion=strict.inclusion)
    for name in AccessPrices.__struct_fields__:
        if not 0 <= getattr(prices, name) <= PRICE_MAX:
            raise InvalidArtifact(
                f"invalid price of {name}", expected=f"0 to {PRICE_MAX} scrip", got=getattr(prices, name)
            )
    return prices


class Bill:
    """Pure arithmetic over an artifact's prices."""

    @staticmethod
    def price(action: str, artifact: Priced, payer: str) -> int:
        """Scrip that one access costs; owners use their own for free."""
        return 0 if payer == artifact.owner else Bill.posted_price(action, artifact)

    @staticmethod
    def posted_price(action: str, artifact: Priced) -> int:
        """Scrip that the artifact itself asks of others, for all to see."""
        name = _PRICED.get(action)
        return 0 if name is None else getattr(artifact.prices, name)

    @staticmethod
    def movement(
        payer: str, owner: str, price: int, royalty: tuple[str, int] | None = None
    ) -> tuple[Posting, ...]:
        """The postings of a decided price; empty if there is nothing to pay.

        `royalty` is who has a share in it, and how many percent: rounded down, the owner keeps the rest.
        """
        if price == 0 or payer == owner:
            return ()
        paid = Posting(account_of(payer), account_of(owner), SCRIP, price)
        to, percent = royalty or ("", 0)
        share = price * percent // 100
        if not share or to == owner:
            return (paid,)
        return (paid, Posting(account_of(owner), account_of(to), SCRIP, share))

    @staticmethod
    def postings(action: str, artifact: Priced, payer: str) -> tuple[Posting, ...]:
        """The movement from payer to owner; empty if there is nothing to pay."""
        return Bill.movement(payer, artifact.owner, Bill.price(action, artifact, payer))


# --------------------------------------------------------------------------- rules
# The one permission path: who may do what with an artifact, and at which price.
#
# Every access asks `Access.check`: read, search, subscription, inclusion in a prompt, invocation, library
# part. A policy that is missing, broken, unknown or cannot be decided denies (I10).
#
# An `allow` list may name a group, `membrane:<id>`: whoever is a member of it at that moment. Nobody acts as
# a group, and no group is in a group.

ANYONE = "*"
"""Stands for every principal in an `allow` list; no id can be this."""

GROUP = "membrane:"
"""What the name of a group begins with in an `allow` list; the rest is the id of its artifact."""

PRINCIPALS_MAX = 1000
"""Names over all lists of one policy (guess: more is a group's job)."""

_RIGHTS = {
    "read": "read",
    "search": "read",
    "subscribe": "read",
    "include": "read",
    "invoke": "invoke",
    "write": "write",
    "delete": "delete",
    "transfer": "transfer",
    "govern": "govern",
}
"""Which right an action needs. `govern` is to change policy and prices: the owner's alone."""

RULED = frozenset(_RIGHTS) - {"govern"}
"""The actions that a contract is asked about."""

CHANGING = frozenset(("write", "delete", "transfer", "govern"))
"""The actions that leave an artifact other than it was."""

_OTHERS: dict[str, frozenset[str]] = {
    "private": frozenset(),
    "owner_writes": frozenset(("read", "invoke")),
    "public": frozenset(("read", "invoke", "write")),
}
"""What a policy without lists gives to everybody but the owner."""

GRANTABLE = ("read", "write", "invoke", "delete", "transfer")
"""The rights an `allow` policy may list."""

POLICIES = (*_OTHERS, "allow", "contract")

# A sub-agent's principal grows with its depth, like its run id.
_PRINCIPAL = re.compile(r"[A-Za-z0-9._:/-]{1,512}")


class Governed(Protocol):
    """The facts on which a decision depends."""

    @property
    def id(self) -> str: ...

    @property
    def owner(self) -> str: ...

    @property
    def access(self) -> Access | None: ...

    @property
    def prices(self) -> AccessPrices: ...


class AccessDecision(NamedTuple):
    """The answer: `reason` says why, `price` is what `payer` must pay for an allowed access."""

    allowed: bool
    reason: str
    price: int = 0
    payer: str | None = None


class Access(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A policy as stored."""

    policy: str
    """`private`, `owner_writes`, `public`, `allow` or `contract`; anything else denies."""
    allow: dict[str, tuple[str, ...]] = {}
    """For `allow`: principals by right; `*` is anyone."""
    contract: str | None = None
    """For `contract`: id of the artifact that decides."""

    @classmethod
    def parse(cls, value: object) -> Access:
        """A policy from a name, `{"allow": {right: [principal]}}`, `{"contract": id}` or itself.

        Errors: `InvalidArtifact`.
        """
        given: Any = msgspec.to_builtins(value) if isinstance(value, Access) else value
        if isinstance(value, str):
            given = {"policy": value}
        elif isinstance(value, dict) and "policy" not in value:
            policy = "contract" if "contract" in value else "allow"
            given = {"policy": policy, **cast("dict[str, Any]", value)}
        try:
            access = msgspec.convert(given, _StrictAccess)
        except msgspec.ValidationError as error:
            raise InvalidArtifact(
                f"invalid access policy: {error}", expected=_EXPECTED, got=safe_repr(given)
            ) from None
        access = cls(policy=access.policy, allow=access.allow, contract=access.contract)
        access._check_shape()
        return access

    @classmethod
    def read(cls, stored: str) -> Access | None:
        """A stored policy; None, which denies, if it cannot be read."""
        try:
            return msgspec.json.decode(stored, type=cls)
        except msgspec.MsgspecError:
            return None

    @property
    def size_chars(self) -> int:
        """The characters of all names."""
        return sum(len(name) for names in self.allow.values() for name in names)

    def _check_shape(self) -> None:
        if (
            self.policy not in POLICIES
            or (bool(self.allow) and self.policy != "allow")
            or ((self.contract is not None) != (self.policy == "contract"))
        ):
            raise InvalidArtifact("invalid access policy", expected=_EXPECTED, got=safe_repr(self))
        if unknown := sorted(set(self.allow) - set(GRANTABLE)):
            raise InvalidArtifact(
                "an access list names no right", expected=", ".join(GRANTABLE), got=unknown[0][:100]
            )
        if sum(map(len, self.allow.values())) > PRINCIPALS_MAX:
            raise InvalidArtifact(
                "too many principals in an access policy", expected=f"at most {PRINCIPALS_MAX}"
            )
        for principals in self.allow.values():
            for principal in principals:
                if principal.startswith(GROUP):
                    check_new_id(principal.removeprefix(GROUP))
                elif principal != ANYONE:
                    check_principal(principal)
        if self.contract is not None:
            check_new_id(self.contract)

    def groups(self, action: str) -> tuple[str, ...]:
        """The groups that the list for an action names, each once."""
        if self.policy != "allow":
            return ()
        listed = self.allow.get(_RIGHTS.get(action, ""), ())
        return tuple(dict.fromkeys(name for name in listed if name.startswith(GROUP)))

    @staticmethod
    def check(
        action: str, principal: str, target: Governed, groups: frozenset[str] = frozenset()
    ) -> AccessDecision:
        """Decide one access, purely. `target` is the artifact as it stands.

        `groups` are those that the principal is a member of now, each as `membrane:<id>`.
        """
        right = _RIGHTS.get(action)
        if right is None:
            return AccessDecision(False, f"unknown action {action}")
        access, owns = target.access, principal == target.owner
        if owns and right == "govern":
            # Else a policy that denies everything could never be mended.
            return AccessDecision(True, "owner")
        if access is None:
            return AccessDecision(False, "its access policy is missing or broken")
        if access.policy == "contract" and right != "govern":
            # Only `contracts.Gate` can ask it; whoever cannot must not guess.
            return AccessDecision(False, f"its contract {access.contract} cannot be asked")
        if access.policy not in POLICIES:
            return AccessDecision(False, f"its access policy {access.policy} is unknown")
        if owns:
            return AccessDecision(True, "owner")
        if right == "govern":
            return AccessDecision(False, "only its owner may change access and prices")
        listed = access.allow.get(right, ()) if access.policy == "allow" else ()
        if (
            right in _OTHERS.get(access.policy, frozenset())
            or (principal in listed and not principal.startswith(GROUP))
            or ANYONE in listed
            or not groups.isdisjoint(listed)
        ):
            return AccessDecision(True, access.policy, Bill.price(action, target, principal), principal)
        return AccessDecision(False, f"its policy is {access.policy}")


class _StrictAccess(Access, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A policy at the door: an unknown field is a mistake, in the store it is a newer version's."""


_EXPECTED = "private, owner_writes, public, {allow: {right: [principal]}} or {contract: id}"


def check_principal(value: object) -> str:
    """Errors: `InvalidRequest`, also for a group: nobody acts as one."""
    if not isinstance(value, str) or not _PRINCIPAL.fullmatch(value) or value.startswith((*RESERVED, GROUP)):
        raise InvalidRequest(
            "invalid principal",
            expected="1-512 characters of A-Z a-z 0-9 . _ : / -, not beginning with main:, b: or membrane:",
            got=safe_repr(value),
        )
    return value


def group_of(id: str) -> str:
    """Return what stands in an `allow` list for the members of a group. Errors: `InvalidRequest`."""
    return GROUP + check_new_id(id)
