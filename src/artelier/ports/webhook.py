"""Webhooks as a kernel is given them: where events go, and who may send requests in."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field
from typing import Literal, get_args

from artelier.errors import InvalidConfig

Action = Literal["signal", "message", "goal"]

ACTIONS: tuple[Action, ...] = get_args(Action)

EVENTS = (
    "run.started",
    "run.completed",
    "run.failed",
    "run.cancelled",
    "run.exhausted",
    "run.paused",
    "run.resumed",
    "run.suspended",
    "run.reopened",
    "approval.requested",
    "approval.given",
    "mission.planned",
    "mission.launched",
    "task.begun",
    "task.blocked",
    "task.cancelled",
    "task.ended",
    "task.reopened",
)
"""Kinds of events that go out. What they bring is in `delivery.py`: names and states, never content."""

DEFAULT_EVENTS = ("run.completed", "run.failed", "run.cancelled", "run.exhausted", "approval.requested")

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
_SECRET = "whsec_"
_SECRET_BYTES = range(24, 65)
"""As the specification has it: 192 to 512 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingWebhook:
    """An address to which events of a tenant are sent.

    `private` allows addresses of this machine and of private networks. Errors: `InvalidConfig`.
    """

    name: str
    url: str
    secret: str = field(repr=False)
    """`whsec_` and 24 to 64 bytes in base64."""
    events: tuple[str, ...] = DEFAULT_EVENTS
    """Kinds of `EVENTS`, or all of a family: `run.*`."""
    tenant: str = "default"
    private: bool = False

    def __post_init__(self) -> None:
        check_name(self.name)
        secret_key(self.secret, name=self.name)
        if not self.events:
            raise InvalidConfig(f"webhook {self.name} sends nothing", expected="one kind of event or more")
        for pattern in self.events:
            if not any(_is_of(kind, pattern) for kind in EVENTS):
                raise InvalidConfig(
                    f"webhook {self.name}: no such event", expected=", ".join(EVENTS), got=repr(pattern)[:80]
                )

    def wants(self, kind: str) -> bool:
        """Return True for the kind of an event that is sent."""
        return kind in EVENTS and any(_is_of(kind, pattern) for pattern in self.events)


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingWebhook:
    """A sender of signed requests to `POST /api/v1/webhooks/NAME`, and what they do.

    With `run` and `signal` the whole body is the data of that signal. Else the body says what is wanted,
    within `actions`. Errors: `InvalidConfig`.
    """

    name: str
    secrets: tuple[str, ...] = field(repr=False)
    """One, or two while a sender changes from one to the other."""
    actions: tuple[Action, ...] = ()
    run: str = ""
    signal: str = ""
    tenant: str = "default"

    def __post_init__(self) -> None:
        check_name(self.name)
        if not self.secrets:
            raise InvalidConfig(f"webhook {self.name} has no secret", expected="whsec_ and base64")
        for secret in self.secrets:
            secret_key(secret, name=self.name)
        for action in self.actions:
            if action not in ACTIONS:
                raise InvalidConfig(
                    f"webhook {self.name}: no such action", expected=", ".join(ACTIONS), got=repr(action)[:80]
                )
        if bool(self.run) != bool(self.signal) or bool(self.run) == bool(self.actions):
            raise InvalidConfig(
                f"webhook {self.name} does nothing, or two things",
                expected="either run and signal, or actions",
                got=f"run={self.run!r}, signal={self.signal!r}, actions={list(self.actions)}"[:200],
            )


def _is_of(kind: str, pattern: str) -> bool:
    """Return True if a pattern is a kind, or its family with `.*`."""
    return kind == pattern or (pattern.endswith(".*") and kind.partition(".")[0] == pattern[:-2])


def check_name(name: str) -> None:
    """Errors: `InvalidConfig` for what cannot be a part of an address."""
    if not _NAME.fullmatch(name):
        raise InvalidConfig(
            "the name of a webhook", expected="1-40 of a-z, 0-9, _ and -", got=repr(name)[:80]
        )


def secret_key(secret: str, *, name: str) -> bytes:
    """Return the key of a secret. Errors: `InvalidConfig`, which does not show it."""
    key = b""
    if secret.startswith(_SECRET):
        try:
            key = base64.b64decode(secret.removeprefix(_SECRET), validate=True)
        except (binascii.Error, ValueError):
            key = b""
    if len(key) not in _SECRET_BYTES:
        raise InvalidConfig(
            f"the secret of webhook {name} is not usable",
            expected="whsec_ and 24 to 64 bytes in base64",
            got=f"{len(secret)} characters",
            hint='python -c "import base64, secrets;'
            " print('whsec_' + base64.b64encode(secrets.token_bytes(32)).decode())\" makes one.",
        )
    return key
