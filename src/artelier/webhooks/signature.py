"""Signatures of the Standard Webhooks specification (https://www.standardwebhooks.com), version `v1`.

HMAC-SHA256 over `<id>.<timestamp>.<body>`. A signature is good for five minutes: what is sent again later is
signed again, under the same id.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping

from artelier.errors import Refused
from artelier.ports.webhook import secret_key

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"

TOLERANCE_S = 300
"""How old, or how far ahead, a signed request may be: the value of the specification's own libraries."""

SIGNATURES_MAX = 16
"""Of one request: a sender that changes its secret signs with two."""

_ID = re.compile(r"[!-~]{1,256}")
_TIME = re.compile(r"[0-9]{1,12}")


class WebhookRefused(Refused):
    """The request is not signed as its webhook wants it; nothing was done."""

    code = "webhook_refused"


def sign(body: bytes, *, id: str, timestamp_s: int, secret: str, name: str = "") -> dict[str, str]:
    """Return the three headers of a body. Errors: `InvalidConfig` for a secret that is none."""
    digest = _digest(body, id=id, timestamp=str(timestamp_s), key=secret_key(secret, name=name))
    return {ID: id, TIMESTAMP: str(timestamp_s), SIGNATURE: f"v1,{digest}"}


def verify(
    body: bytes, headers: Mapping[str, str], *, secrets: Iterable[str], now_s: int, name: str = ""
) -> str:
    """Return the id of a signed request. `headers`: their names in lower case.

    Errors: `WebhookRefused` for a missing or broken header, a time outside of `TOLERANCE_S`, and a signature
    of none of the secrets. It does not say which part of a signature differs.
    """
    id, timestamp = headers.get(ID, ""), headers.get(TIMESTAMP, "")
    given = headers.get(SIGNATURE, "").split(" ")[:SIGNATURES_MAX]
    if not _ID.fullmatch(id) or not _TIME.fullmatch(timestamp) or not any(given):
        raise WebhookRefused(
            "the request is not signed",
            expected=f"the headers {ID}, {TIMESTAMP} (seconds since 1970) and {SIGNATURE}",
        )
    if abs(now_s - int(timestamp)) > TOLERANCE_S:
        raise WebhookRefused(
            "the signature is not of now",
            expected=f"a {TIMESTAMP} within {TOLERANCE_S} seconds of this server's clock",
            got=timestamp,
            hint="Sign it again, under the same id.",
        )
    is_good = False
    for secret in secrets:
        wanted = _digest(body, id=id, timestamp=timestamp, key=secret_key(secret, name=name)).encode()
        for one in given:
            version, _, digest = one.partition(",")
            # Each is compared, so that the time says nothing of which one was good.
            is_good |= version == "v1" and hmac.compare_digest(wanted, digest.encode("utf-8", "replace"))
    if not is_good:
        raise WebhookRefused(
            "the signature does not fit the request",
            expected="HMAC-SHA256 over <id>.<timestamp>.<body> with this webhook's secret, as v1,<base64>",
            hint="Sign the body as it is sent, byte for byte.",
        )
    return id


def _digest(body: bytes, *, id: str, timestamp: str, key: bytes) -> str:
    signed = f"{id}.{timestamp}.".encode() + body
    return base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
