"""A process is killed with `kill -9` between two payments; the next one goes on, and nobody is paid twice."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from artelier import Kernel, tool

BOOKS = Path("bank.txt")  # the outside world


@tool(side_effect=True)
def pay(to: str) -> str:
    """Pay somebody."""
    with BOOKS.open("a") as books:
        books.write(f"{to}\n")
    return f"paid {to}"


async def work(*, die_after: str | None = None) -> None:
    with Kernel.open("payments.db", tools=[pay]) as kernel:
        async with kernel.run("payroll") as run:
            for name in ("ana", "ben", "cleo"):
                result = await run.step_tool("pay", {"to": name}, key=name)
                print(f"{result.value}{' (from the log)' if result.replayed else ''}", flush=True)
                if name == die_after:
                    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(work(die_after=sys.argv[1]))
    else:
        killed = subprocess.run([sys.executable, __file__, "ben"], check=False)
        print(f"the first process ended with {killed.returncode}")
        asyncio.run(work())
        print("the bank's books:", BOOKS.read_text().split())
