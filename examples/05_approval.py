"""A run waits for a person. The process need not: it may end, and another one goes on."""

import asyncio

from artelier import Kernel, RunSuspended


async def publish(kernel: Kernel) -> None:
    async with kernel.run("report", on_wait="suspend") as run:
        approval = await run.approve("Publish the report?", details={"pages": 12})
        run.finish("published" if approval else f"not published: {approval.note}")


async def main() -> None:
    with Kernel.open("approval.db") as kernel:
        try:
            await publish(kernel)
        except RunSuspended as suspended:
            print(f"the run is {suspended.status}")

    with Kernel.open("approval.db") as kernel:  # the next day, another process
        desk = kernel.for_tenant()
        for waiting in await desk.approvals():
            print(f"{waiting['run_id']} asks: {waiting['question']} {waiting['details']}")
            await desk.approve(waiting["run_id"], note="two typos are left", deny=True, by="user:ana")
        await publish(kernel)
        print((await desk.show("report"))["result"])


asyncio.run(main())
