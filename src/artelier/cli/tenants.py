"""`artelier tenants`: whose data, whose money."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from artelier.cli.call import Call
from artelier.cli.command import command, group
from artelier.errors import InvalidRequest, NotFound

app = group("tenants", help="Look at tenants and change their budgets.")

TenantId = Annotated[
    str | None, typer.Argument(metavar="ID", help="Else the tenant of --tenant, or default.")
]


@command(app, name="list", example="artelier tenants list")
async def list_tenants(call: Call) -> None:
    """List tenants with their money."""
    async with call.kernel() as kernel:
        found = await kernel.tenants.list()
    if call.as_json:
        call.screen.json({"items": found, "next": None})
        return
    rows = [
        (
            tenant["id"], tenant["budget_usd"] or "no limit", tenant["spent_usd"],
            tenant["held_usd"], tenant["available_usd"] or "",
        )
        for tenant in found
    ]  # fmt: skip
    columns = ("tenant", ">budget USD", ">spent", ">held", ">available")
    call.screen.table(columns, rows, empty="no tenants yet")


@command(app, name="show", example="artelier tenants show acme")
async def show(call: Call, name: TenantId = None) -> None:
    """Show one tenant: its grants and its money."""
    async with call.kernel() as kernel:
        found = await kernel.tenants.show(name or call.tenant)
    _print(call, found)


@command(app, name="update", example="artelier tenants update acme --budget-usd 20.00")
async def update(
    call: Call,
    name: TenantId = None,
    budget_usd: Annotated[
        str | None,
        typer.Option("--budget-usd", metavar="AMOUNT", help="Most that it may spend, in total."),
    ] = None,
    unlimited: Annotated[bool, typer.Option("--unlimited", help="Lift the budget.")] = False,
    grants: Annotated[
        list[str] | None,
        typer.Option("--grant", metavar="PATTERN", help="A grant; all given ones replace the old."),
    ] = None,
    allow_unknown_price: Annotated[
        bool | None,
        typer.Option(
            "--allow-unknown-price/--refuse-unknown-price",
            help="Whether a model without a known price may be called.",
        ),
    ] = None,
) -> None:
    """Change what a tenant may use and spend.

    Runs at work see it at their next step. A tenant that is not there yet is made.
    """
    if budget_usd is not None and unlimited:
        raise InvalidRequest("--budget-usd and --unlimited exclude each other")
    if budget_usd is None and not unlimited and not grants and allow_unknown_price is None:
        raise InvalidRequest(
            "nothing to change",
            expected="--budget-usd, --unlimited, --grant or --[allow|refuse]-unknown-price",
        )
    tenant = name or call.tenant
    async with call.kernel(create=True) as kernel:
        try:
            await kernel.tenants.show(tenant)
        except NotFound:
            await kernel.tenants.open(tenant)
        found = await kernel.tenants.update(
            tenant, budget_usd=budget_usd, unlimited=unlimited, grants=grants or None,
            allow_unknown_price=allow_unknown_price, by=call.person,
        )  # fmt: skip
    _print(call, found)


def _print(call: Call, tenant: dict[str, Any]) -> None:
    if call.as_json:
        call.screen.json(tenant)
        return
    budget = tenant["budget_usd"]
    call.screen.facts(
        [
            ("tenant", tenant["id"]),
            ("grants", ", ".join(tenant["grants"])),
            ("budget", "no limit" if budget is None else f"{budget} USD"),
            ("spent", f"{tenant['spent_usd']} USD"),
            ("held", f"{tenant['held_usd']} USD"),
            ("available", tenant["available_usd"] and f"{tenant['available_usd']} USD"),
            ("unknown prices", "allowed" if tenant["allow_unknown_price"] else "refused"),
        ]
    )
