"""A model works with people's data and never sees it; one tool and the person get the real address."""

import asyncio
import secrets
from pathlib import Path
from typing import Any

from artelier import Kernel, Policy, Run, Tenant, tool
from artelier.testing import ScriptedModel, tool_call

EMAIL, PHONE = "ana.lopez@example.org", "+49 151 12345678"
letterbox: list[str] = []


@tool(side_effect=True, grant="mail:send pii:restore")
async def send_mail(to: str, text: str) -> dict[str, str]:
    """Send a letter. Its grant says that it is given the values themselves."""
    letterbox.append(to)
    return {"sent_to": to}


def seen(request: Any) -> str:
    return "\n".join(message.text for message in request.messages)


def write_letter(request: Any) -> Any:
    """What a model would do: use the placeholder that it sees as if it were the address."""
    placeholder = next(word for word in seen(request).split() if word.startswith("<EMAIL_"))
    return tool_call("send_mail", {"to": placeholder, "text": "Your order is on its way."})


model = ScriptedModel([write_letter, lambda request: f"Done: {seen(request).split()[2]}"])


async def work(run: Run) -> str:
    talk = run.conversation()
    talk.append({"role": "user", "content": f"Write to {EMAIL} , whose phone is {PHONE} please"})
    first = await run.step_model(model="m", messages=talk, tools=["send_mail"])
    talk.append(first)
    for call in first.tool_calls:
        talk.append(await run.step_tool(call.name, call.arguments))
    return (await run.step_model(model="m", messages=talk)).text


async def main() -> None:
    key = {"ARTELIER_VAULT_KEY": secrets.token_hex(32)}  # keep yours: without it values are lost
    shop = Tenant("shop", grants={"tools:*", "mail:send", "pii:restore"})
    with Kernel.open(
        "people.db", models={"m": model}, tools=[send_mail], policy=Policy(pii=True), environ=key
    ) as kernel:
        desk = kernel.for_tenant(shop)
        async with desk.run("letter") as run:
            run.finish(await work(run))
        result = (await desk.show("letter"))["result"]
        print("the model saw:", seen(model.requests[0]))
        print("the log has:", result)
        print("the letter went to:", letterbox[0])
        print("the person reads:", await desk.restored(result))
        print("replaced in the first prompt:", (await desk.manifest("letter", "1")).pii)

    held = b"".join(file.read_bytes() for file in Path().glob("people.db*"))
    print("the files hold the address:", EMAIL.encode() in held)


asyncio.run(main())
