"""The OpenAPI document; `python -m artelier.server.openapi` prints it, for generated clients."""

from __future__ import annotations

import sys
from functools import cache


@cache
def document() -> str:
    """The document as JSON, the same bytes for the same code."""
    import msgspec

    from artelier.app import Kernel
    from artelier.server.app import create_app

    with Kernel.open(":memory:", environ={}) as kernel:
        schema = create_app(kernel).openapi()
    return msgspec.json.format(msgspec.json.encode(schema), indent=1).decode()


if __name__ == "__main__":
    sys.stdout.write(document() + "\n")
