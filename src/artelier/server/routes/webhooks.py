"""`/webhooks/NAME`: signed requests of other systems. Nobody signs in; the signature says who asks.

The guard lets this address through, so nothing here may come before the signature is good.
"""

from __future__ import annotations

from dataclasses import asdict

from fastapi import Request
from fastapi.responses import JSONResponse

from artelier.server.background_tasks import errands_of, has_begun, key_of, send_work
from artelier.server.deps import Core, Setup
from artelier.server.routes import resource
from artelier.webhooks.signed_requests import GoalAsked, WebhookRefused, receive

router = resource("webhooks", is_documented=False)


@router.post("/{name}")
async def take(request: Request, kernel: Core, settings: Setup, name: str) -> JSONResponse:
    """Do what a signed request asks for, once."""
    hook = next((one for one in settings.webhooks if one.name == name), None)
    if hook is None:  # as for a wrong signature: nobody finds out by trying which names there are
        raise WebhookRefused(
            "the request is not signed for a webhook of this server",
            expected="the name of [webhooks.in.NAME] in its settings, signed with its secret",
        )
    desk = kernel.for_tenant(hook.tenant)

    async def plan_goal(mission: str, asked: GoalAsked) -> None:
        if await has_begun(desk, mission):
            return
        work = desk.plan(
            asked.goal,
            mission_id=mission,
            model=settings.model,
            workspace=desk.services.workspaces.root(desk.id),
            budget_usd=asked.budget_usd,
            by=f"webhook:{hook.name}",
        )
        await send_work(errands_of(request.app), key_of("mission", desk, mission), work, desk, run_id=mission)

    headers = {key.lower(): value for key, value in request.headers.items()}
    found = await receive(desk, hook, await request.body(), headers, plan_goal=plan_goal)
    return JSONResponse(asdict(found), status_code=200 if found.status == "duplicate" else 202)
