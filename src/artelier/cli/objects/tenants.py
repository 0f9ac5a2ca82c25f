"""`artelier tenants`: whose data, whose money."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from artelier.cli import display
from artelier.cli.call import CliCall
from artelier.cli.command import command, group
from artelier.errors import InvalidRequest, NotFound

if TYPE_CHECKING:
    from artelier.kernel import Rate
    from artelier.kernel.tenants.registry import TenantReport

app = group("tenants", help="Look at tenants, change what they may use and spend.")

TenantId = Annotated[
    str | None, typer.Argument(metavar="ID", help="Else the tenant of --tenant, or default.")
]


@command(app, name="list", example="artelier tenants list")
async def list_tenants(call: CliCall) -> None:
    """List tenants with their money."""
    async with call.kernel() as kernel:
        found = await kernel.tenants.list()
    if call.print_json({"items": found, "next": None}):
        return
    rows = [
        (
            tenant["id"],
            tenant["budget_usd"] or "no limit",
            tenant["spent_usd"],
            tenant["held_usd"],
            tenant["debt_usd"],
            tenant["available_usd"] or "",
        )
        for tenant in found
    ]
    columns = ("tenant", ">budget USD", ">spent", ">held", ">debt", ">available")
    call.screen.table(columns, rows, empty="no tenants yet")


@command(app, name="show", example="artelier tenants show acme")
async def show(call: CliCall, name: TenantId = None) -> None:
    """Show one tenant: its grants and its money."""
    async with call.kernel() as kernel:
        found = await kernel.tenants.show(name or call.tenant)
    _print(call, found)


@command(app, name="update", example="artelier tenants update acme --budget-usd 20.00")
async def update(
    call: CliCall,
    name: TenantId = None,
    budget_usd: Annotated[
        str | None, typer.Option("--budget-usd", metavar="AMOUNT", help="Most that it may spend, in total.")
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
    rates: Annotated[
        list[str] | None,
        typer.Option(
            "--rate",
            metavar="NAME=REQUESTS[/TOKENS]",
            help="Most in a minute, such as openai=60/90000; replaces all, none= lifts them.",
        ),
    ] = None,
    patterns: Annotated[
        list[str] | None,
        typer.Option(
            "--pattern",
            metavar="KIND=EXPR",
            help="Personal data, such as EMPLOYEE=E-[0-9]{6}; replaces all, none= lifts them.",
        ),
    ] = None,
) -> None:
    """Change what a tenant may use and spend, and what is looked for.

    Runs at work see it at their next step. A tenant that is not there yet is made.
    """
    if budget_usd is not None and unlimited:
        raise InvalidRequest("--budget-usd and --unlimited exclude each other")
    if budget_usd is None and allow_unknown_price is None and not (unlimited or grants or rates or patterns):
        raise InvalidRequest(
            "nothing to change",
            expected="--budget-usd, --unlimited, --grant, --rate, --pattern or"
            " --[allow|refuse]-unknown-price",
        )
    speeds = _rates(rates) if rates else None
    kinds = _patterns(patterns) if patterns else None
    tenant = name or call.tenant
    async with call.kernel(create=True) as kernel:
        try:
            await kernel.tenants.show(tenant)
        except NotFound:
            await kernel.tenants.open(tenant)
        found = await kernel.tenants.update(
            tenant,
            budget_usd=budget_usd,
            unlimited=unlimited,
            grants=grants or None,
            allow_unknown_price=allow_unknown_price,
            rates=speeds,
            patterns=kinds,
            by=call.person,
        )
    _print(call, found)


def _rates(given: list[str]) -> dict[str, Rate]:
    """Rates as they are typed. Errors: `InvalidRequest`."""
    from artelier.kernel import Rate

    if given == ["none="]:
        return {}
    found: dict[str, Rate] = {}
    for text in given:
        name, _, speed = text.rpartition("=")
        numbers = [one or "0" for one in speed.split("/")]
        if (
            not name
            or len(numbers) > 2
            or not all(one.isascii() and one.isdecimal() and len(one) < 13 for one in numbers)
        ):
            raise InvalidRequest(
                "not a rate", expected="NAME=REQUESTS[/TOKENS], such as openai=60/90000", got=text[:80]
            )
        requests, tokens = (int(one) or None for one in (*numbers, "0")[:2])
        found[name] = Rate(requests=requests, tokens=tokens)
    return found


def _patterns(given: list[str]) -> dict[str, str]:
    """Patterns as they are typed. Errors: `InvalidRequest` for two of one kind, and for what is none."""
    found: dict[str, str] = {}
    for text in () if given == ["none="] else given:
        kind, _, expression = text.partition("=")
        if not kind or not expression or kind in found:
            raise InvalidRequest(
                "not a pattern, or a second one of its kind",
                expected="KIND=EXPR, such as EMPLOYEE=E-[0-9]{6}",
                got=text[:80],
            )
        found[kind] = expression
    return found


def _print(call: CliCall, tenant: TenantReport) -> None:
    if call.print_json(tenant):
        return
    budget, quotas = tenant["budget_usd"], tenant["quotas"]
    call.screen.facts(
        [
            ("tenant", tenant["id"]),
            ("grants", ", ".join(tenant["grants"])),
            ("budget", "no limit" if budget is None else f"{budget} USD"),
            ("spent", f"{tenant['spent_usd']} USD"),
            ("held", f"{tenant['held_usd']} USD"),
            ("debt", f"{tenant['debt_usd']} USD"),
            ("available", tenant["available_usd"] and f"{tenant['available_usd']} USD"),
            ("a minute", display.speeds(tenant["rates"])),
            ("patterns", ", ".join(f"{k}={v}" for k, v in tenant["patterns"].items()) or None),
            ("stored", f"{quotas['stored_bytes']:,} of {quotas['stored_bytes_max']:,} bytes"),
            ("streams", f"at most {quotas['streams_max']:,} at once"),
            ("uploads", f"at most {quotas['uploads_max']:,} at once"),
            ("ticks", f"at most {quotas['ticks_max']:,} a request"),
            ("unknown prices", "allowed" if tenant["allow_unknown_price"] else "refused"),
        ]
    )
