"""Artifacts have versions, owners and access; who has no right learns nothing."""

import asyncio

from artelier import Kernel
from artelier.errors import AccessDenied, VersionConflict


async def main() -> None:
    with Kernel.open("artifacts.db") as kernel:
        ana = kernel.for_tenant("studio").as_principal("ana").artifacts
        ben = kernel.for_tenant("studio").as_principal("ben").artifacts

        await ana.write("plan", kind="document", content="Paint the north wall.")
        await ana.edit("plan", "north", "south")
        print((await ben.read("plan")).content, "| before:", (await ben.read("plan@1")).content)
        print((await ana.diff("plan", 1, 2)).text)

        await ana.write("secret", kind="prompt", content={"template": "Be bold."})
        try:
            await ben.read("secret")
        except AccessDenied as error:
            print(error.code)
        try:
            await ben.write("plan", content="Paint nothing.", expected_version=1)
        except (AccessDenied, VersionConflict) as error:
            print(error.code)


asyncio.run(main())
