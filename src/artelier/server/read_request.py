"""Requests whose body is here, which routes read as JSON."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request

from artelier.threads import read_beside_loop


class ReadRequest(Request):
    """A request with this body. What is large becomes JSON beside the event loop."""

    _json: Any

    def __init__(self, request: Request, body: bytes) -> None:
        super().__init__(request.scope, request.receive)
        self._body = body

    async def json(self) -> Any:
        """Return the body as JSON. Errors: those of `json.loads`."""
        if not hasattr(self, "_json"):
            self._json = await read_beside_loop(len(self._body), json.loads, self._body)
        return self._json
