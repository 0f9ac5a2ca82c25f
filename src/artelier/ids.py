"""Names that every layer shares: which ids are legal and what a stored stream is called."""

from __future__ import annotations

import re
import secrets
from typing import NewType

from artelier.errors import InvalidRequest

VERSION = "0.1.0"
"""Of this distribution; written into every run that it starts."""

RunId = NewType("RunId", str)
TenantId = NewType("TenantId", str)

DEFAULT_TENANT = TenantId("default")
MAIN_SPACE = "main"

OPERATOR = "operator"
"""The principal that people act as with artifacts, and the actor where nobody says which person it was."""

PERSON = "user:"
"""How a person's name begins as a principal or an actor."""


def is_person(principal: str) -> bool:
    """Return True if somebody acts for themselves, and no agent."""
    return principal == OPERATOR or principal.startswith(PERSON)


_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SPACE = re.compile(r"main|world:[A-Za-z0-9._:-]{1,128}")
# What looks like a reference to content (`b:` and 43 characters) is none: events name both inline.
_NO_BLOB = r"(?!b:[A-Za-z0-9_-]{43}$)"
_ID = re.compile(_NO_BLOB + r"[A-Za-z0-9._:/-]{1,128}")
# A sub-agent's run id grows with its depth: parent::sub_agent::key (depth is bounded elsewhere).
_RUN_ID = re.compile(_NO_BLOB + r"[A-Za-z0-9._:/-]{1,512}")


def _check(pattern: re.Pattern[str], value: object, what: str, expected: str) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise InvalidRequest(f"invalid {what}", expected=expected, got=_shown(value))
    return value


def _shown(value: object) -> str:
    return repr(value[:200] if isinstance(value, str) else value)[:200]


def check_tenant(value: object) -> TenantId:
    return TenantId(_check(_TENANT, value, "tenant id", "1-64 characters of A-Z a-z 0-9 . _ -"))


def is_tenant(value: str) -> bool:
    """Return whether a tenant may be called so."""
    return _TENANT.fullmatch(value) is not None


def check_space(value: object) -> str:
    return _check(_SPACE, value, "space", "'main' or 'world:<id>'")


def check_world(value: object) -> str:
    """Return the id of a world. Errors: `InvalidRequest` for what no world can be called."""
    if not isinstance(value, str) or not _SPACE.fullmatch(f"world:{value}"):
        expected = "1-128 characters of A-Z a-z 0-9 . _ : -"
        raise InvalidRequest("invalid name of a world", expected=expected, got=_shown(value))
    return value


def check_artifact_id(value: object) -> str:
    return _check(_ID, value, "artifact id", "1-128 characters of A-Z a-z 0-9 . _ : / -")


def check_run_id(value: object) -> RunId:
    return RunId(_check(_RUN_ID, value, "run id", "1-512 characters of A-Z a-z 0-9 . _ : / -"))


def fresh_secret(size_bytes: int) -> bytes:
    """Unguessable bytes; the default source of data keys, which nothing recorded depends on."""
    return secrets.token_bytes(size_bytes)
