"""`genesis_ledger`: balances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from artelier.artifacts import Call, Tree, Working, account_of, check_principal
from artelier.errors import InvalidArguments, InvalidRequest
from artelier.world.services.arguments import Arguments, arguments


class _Whose(Arguments, frozen=True, kw_only=True):
    principal: str | None = None


class Ledger:
    """`{principal}`, by default the caller, gives `{principal, balance}`: scrip, now."""

    def units(self, args: Mapping[str, Any], /) -> int:
        arguments(args, _Whose)
        return 1

    async def run(self, working: Working, call: Call, tree: Tree, /) -> dict[str, Any]:
        principal = arguments(call.args, _Whose).principal or call.caller
        try:
            check_principal(principal)
        except InvalidRequest as error:
            raise InvalidArguments(error.message, expected=error.expected, got=error.got) from None
        return {"principal": principal, "balance": await working.balance(account_of(principal))}
