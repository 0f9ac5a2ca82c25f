"""`/tenants/me`: what the tenant of the request may do and spend, what is left, and changes by admins."""

from __future__ import annotations

from artelier.errors import InvalidRequest
from artelier.kernel import Tenants
from artelier.ledger.queries import scope_limits
from artelier.money import parse_usd
from artelier.server.deps import Admin, Core, Desk
from artelier.server.routes import resource
from artelier.server.wire.ledger import TenantChange, TenantShown

router = resource("tenants")


@router.get("/me", operation_id="tenants_me")
async def me(desk: Desk) -> TenantShown:
    """Grants, budget, what is spent, held and left, and the tenant's other limits and rates."""
    found = await Tenants(desk.services).show(desk.id)
    return TenantShown.model_validate(
        {
            **{name: found[name] for name in ("id", "grants", "allow_unknown_price")},
            "budget_microusd": _micro(found["budget_usd"]),
            "spent_microusd": _micro(found["spent_usd"]),
            "held_microusd": _micro(found["held_usd"]),
            "debt_microusd": _micro(found["debt_usd"]),
            "available_microusd": _micro(found["available_usd"]),
            "limits": await scope_limits(desk.services.store, desk.id, "tenant"),
            "rates": [{"name": name, **rate} for name, rate in found["rates"].items()],
            "patterns": sorted(found["patterns"]),
            "quotas": found["quotas"],
        }
    )


@router.patch("/me", operation_id="tenants_update")
async def update(desk: Desk, who: Admin, kernel: Core, asked: TenantChange) -> TenantShown:
    """Change grants and budget; only admins may. Runs at work see it at their next step."""
    changed = asked.given_fields()
    if not changed:
        raise InvalidRequest("nothing to change", expected="budget_usd or grants")
    unlimited = "budget_usd" in changed and changed["budget_usd"] is None
    await kernel.tenants.update(desk.id, **changed, unlimited=unlimited, by=who.actor)
    return await me(desk)


def _micro(amount: str | None) -> int | None:
    if amount is None:
        return None
    return parse_usd(amount.removeprefix("-")) * (-1 if amount.startswith("-") else 1)
