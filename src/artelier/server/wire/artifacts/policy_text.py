"""An access policy and its prices in sentences, for people."""

from __future__ import annotations

from collections.abc import Sequence

from artelier.artifacts import Access, AccessPrices

_OTHERS = {
    "private": "Nobody else may read, invoke or change it.",
    "owner_writes": "Everybody may read and invoke it; only the owner changes it.",
    "public": "Everybody may read, invoke and change it.",
}

_VERBS = {
    "read": "read it",
    "write": "change it",
    "invoke": "invoke it",
    "delete": "delete it",
    "transfer": "give it away",
}

_PRICED = (("read", "Reading it"), ("invoke", "Invoking it"), ("inclusion", "A prompt with it"))

NAMED_MAX = 20


def in_words(owner: str, access: Access | None, prices: AccessPrices) -> list[str]:
    """A sentence for each rule, the owner's first."""
    return [f"{owner} owns it, and decides who else may use it.", *_policy(access), *_prices(prices)]


def _policy(access: Access | None) -> list[str]:
    if access is None:
        return ["Its access policy cannot be read, so nobody else may do anything with it."]
    if access.policy in _OTHERS:
        return [_OTHERS[access.policy]]
    if access.policy == "contract":
        return [f"The contract {access.contract} decides each access, the owner's too."]
    if access.policy != "allow":
        return [f"Its access policy {access.policy} is unknown here, so nobody may use it."]
    said = [
        f"{_who(access.allow[right])} may {verb}."
        for right, verb in _VERBS.items()
        if access.allow.get(right)
    ]
    return said or ["Its lists name nobody: only the owner may use it."]


def _who(principals: Sequence[str]) -> str:
    if "*" in principals:
        return "Everybody"
    named = [_name_principal(one) for one in principals[:NAMED_MAX]]
    more = len(principals) - NAMED_MAX
    if more > 0:
        named.append(f"{more} more")
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"


def _name_principal(principal: str) -> str:
    kind, _, rest = principal.partition(":")
    return f"every member of {rest}" if kind == "membrane" and rest else principal


def _prices(prices: AccessPrices) -> list[str]:
    return [
        f"{what} costs others {amount} scrip." for name, what in _PRICED if (amount := getattr(prices, name))
    ]
