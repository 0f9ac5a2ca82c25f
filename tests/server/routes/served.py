"""A server over a real kernel for tests: clients that are signed in, through the whole application."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from artelier import Kernel, ModelRequest, Policy
from artelier.kernel.policy import Workspaces
from artelier.ports.model import Price
from artelier.server.app import create_app
from artelier.server.security.users import Users
from artelier.server.settings import ServerSettings
from artelier.testing import ScriptedModel

T = TypeVar("T")

FREE = Price()

USERS = (("ada", "operator", "default"), ("vic", "viewer", "default"), ("eve", "operator", "other"))


def play(scenario: Coroutine[Any, Any, T], *, within_s: float = 120.0) -> T:
    """Run a scenario to its end; one that hangs is a failure."""

    async def bounded() -> T:
        async with asyncio.timeout(within_s):
            return await scenario

    return asyncio.run(bounded())


def said(request: ModelRequest) -> str:
    """What the person said last."""
    return next((one.text for one in reversed(request.messages) if one.role == "user"), "")


def echo(request: ModelRequest) -> str:
    return f"re: {said(request)}"


class Served:
    """The clients of one server, by user."""

    def __init__(self, kernel: Kernel, app: Any) -> None:
        self.kernel = kernel
        self.app = app
        self._clients: dict[str, httpx.AsyncClient] = {}

    def client(self, user: str) -> httpx.AsyncClient:
        if user not in self._clients:
            self._clients[user] = httpx.AsyncClient(
                transport=httpx.ASGITransport(app=self.app),
                base_url="http://localhost/api/v1",
                headers={"Authorization": f"Bearer {user}-token"},
            )
        return self._clients[user]

    @property
    def ada(self) -> httpx.AsyncClient:
        """An operator of tenant `default`."""
        return self.client("ada")

    @property
    def vic(self) -> httpx.AsyncClient:
        """A viewer of tenant `default`."""
        return self.client("vic")

    @property
    def eve(self) -> httpx.AsyncClient:
        """An operator of tenant `other`."""
        return self.client("eve")

    async def close(self) -> None:
        for client in self._clients.values():
            await client.aclose()


@asynccontextmanager
async def serving(
    folder: Path,
    answer: Callable[[ModelRequest], Any] = echo,
    *,
    price: Price = FREE,
    model: Any = None,
    tools: Iterable[Any] = (),
    policy: Policy | None = None,
    workspace: str = "",
    workspaces: Workspaces | None = None,
    users: Iterable[tuple[str, str, str]] = USERS,
    **settings: Any,
) -> AsyncIterator[Served]:
    """A server whose model `m` answers by a function, or is `model`. It ends before its kernel.

    `workspace` is that of tenant `default`.
    """
    model = model or ScriptedModel(answer, price=price)
    kernel = Kernel.open(
        folder / "state.db",
        models={"m": model},
        tools=tools,
        policy=policy,
        environ={},
        workspaces=Workspaces(roots={"default": workspace}) if workspace else workspaces,
    )
    app = create_app(kernel, settings=ServerSettings(users=_users(users), **settings))
    served = Served(kernel, app)
    try:
        async with app.router.lifespan_context(app):
            yield served
            await served.close()
    finally:
        await kernel.aclose()


def _users(listed: Iterable[tuple[str, str, str]]) -> Users:
    def token(name: str) -> str:
        return f"sha256:{hashlib.sha256(f'{name}-token'.encode()).hexdigest()}"

    rows = [
        {"name": name, "role": role, "tenants": [tenant], "tokens": [token(name)]}
        for name, role, tenant in listed
    ]
    return Users.parse({"users": rows})


def at(*pieces: object) -> str:
    """An address: each piece is encoded whole, as ids are."""
    return "/" + "/".join(quote(str(piece), safe="") for piece in pieces)


def good(response: httpx.Response, status: int = 200) -> Any:
    """The body of an answer that was expected."""
    assert response.status_code == status, f"{response.status_code}: {response.text[:2000]}"
    return response.json() if response.content else None


def refused(response: httpx.Response, status: int, code: str = "") -> dict[str, Any]:
    """The error of an answer, in the one shape."""
    assert response.status_code == status, f"{response.status_code}: {response.text[:2000]}"
    error = response.json()["error"]
    assert set(error) - {"errors"} == {"code", "message", "expected", "got", "hint"}
    assert not code or error["code"] == code
    return error
