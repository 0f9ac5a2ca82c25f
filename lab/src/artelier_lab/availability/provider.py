"""A provider of models outside the server: the double of OpenAI, in a process of its own.

The first line that it tells has its address; it ends with its standard input. Run as `python -m ...`.
"""

from __future__ import annotations

import asyncio
import json
import sys

from artelier.testing.openai_server import OpenAIServer

__all__ = ["serve"]


async def serve() -> None:
    """Answer every call with a word."""
    async with OpenAIServer(["seen"], repeat_last=True) as server:
        print(json.dumps({"url": server.base_url}), flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve())
