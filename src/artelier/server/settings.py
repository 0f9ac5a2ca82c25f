"""The settings of a server, given when it starts; nothing here changes while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from artelier.errors import InvalidConfig
from artelier.ports.webhook import IncomingWebhook
from artelier.server.security.identity import Network, PublicUrl, parse_networks

if TYPE_CHECKING:
    from artelier.server.security.users import Users

PORT = 8321
LOOPBACK = ("localhost", "127.0.0.1", "::1")
STATIC = Path(__file__).parent / "static"
"""Where the build of the web application is put."""

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """`users` None is local mode: one person, who has the link that is printed at the start."""

    host: str = "127.0.0.1"
    port: int = PORT
    hosts: tuple[str, ...] = ()
    """Names, besides those of loopback and `host`, under which browsers may reach the server."""
    public_url: str = ""
    """The address that people type where a proxy stands before the server: `https://desk.example`."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks of proxies whose `X-Forwarded-For` is believed."""
    tenant: str = "default"
    """That of a person who names none."""
    users: Users | None = None
    secret_file: Path | None = None
    """Holds the key of session cookies. None: a key of this process, so that a restart ends all sessions."""
    tokens_file: Path | None = None
    """Holds hashes of programs' tokens, where nobody signs in by name. None: no program has one."""
    sweeps_folder: Path | None = None
    """The folder of sweeps of worlds, with one of each tenant in it. None: the server keeps no sweeps."""
    body_max_bytes: int = MIB
    upload_max_bytes: int = 64 * MIB
    body_s: float = 30.0
    """How long a body may take to arrive, and how long nothing of it may come; large ones get more."""
    static: Path = STATIC
    has_worker: bool = True
    """Whether runs that nobody drives are driven by this process."""
    drain_s: float = 20.0
    """How long tools that are at work may take to end after SIGTERM."""
    clients_max: int = 1000
    """Of live streams at one time."""
    user_clients_max: int = 64
    """Of those, for one user over all tenants."""
    tenant_clients_max: int = 500
    """Of those, for all users of one tenant."""
    queue_max: int = 1000
    """Events that wait for one client; one that is further behind is dropped and resumes."""
    model: str = "offline"
    """Of whatever names none."""
    webhooks: tuple[IncomingWebhook, ...] = ()
    """Who may send signed requests in."""
    features: tuple[str, ...] = field(default=())
    """Names of what this server offers besides the routes, for the web application."""

    def __post_init__(self) -> None:
        """Errors: `InvalidConfig`, also for an address that others reach while nobody has to sign in."""
        _ = self.public, self.proxies
        if self.users is None and (self.public_url or self.trusted_proxies):
            raise InvalidConfig(
                "without users only this machine may reach the server",
                expected="--auth users.toml with --public-url and --trusted-proxy",
                hint="`artelier up --help` says how a file of users is written.",
            )
        if self.users is None and not is_loopback(self.host):
            raise InvalidConfig(
                "without users only this machine may reach the server",
                expected="a loopback host, or --auth users.toml",
                got=self.host,
                hint="`artelier up --help` says how a file of users is written.",
            )

    @property
    def names(self) -> frozenset[str]:
        """Every host name under which a request may come, in lower case."""
        bound = () if self.host in ("0.0.0.0", "::") else (self.host,)
        public = () if self.public is None else (self.public.host,)
        return frozenset(name.lower() for name in (*LOOPBACK, *bound, *public, *self.hosts))

    @property
    def public(self) -> PublicUrl | None:
        """The public URL, read. Errors: `InvalidConfig`."""
        return PublicUrl.parse(self.public_url) if self.public_url else None

    @property
    def proxies(self) -> tuple[Network, ...]:
        """The trusted proxies, read. Errors: `InvalidConfig`."""
        return parse_networks(self.trusted_proxies)


def is_loopback(host: str) -> bool:
    """Return True if only processes of this machine reach an address."""
    import ipaddress

    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
