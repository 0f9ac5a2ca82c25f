"""`artelier doctor --online`: whether the providers answer, and how far their clocks are from ours."""

from __future__ import annotations

import http.client
import os
import ssl
import time
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from artelier.cli.call import CliCall
from artelier.cli.doctor.result import NOTE, OK, WRONG, Finding

TIMEOUT_S = 5.0
SKEW_S_MAX = 30.0
"""Beyond it certificates and signatures begin to fail (a guess)."""


def looks(call: CliCall) -> list[Finding]:
    """The providers that have a key, and that of the model that holds."""
    from artelier.models.vendors import VENDORS
    from artelier.tokens.model_info import split_name

    wanted = split_name(call.settings.model)[0]
    found: list[Finding] = []
    for name, vendor in VENDORS.items():
        has_key = any(os.environ.get(key, "").strip() for key in vendor.key_names)
        own = os.environ.get(vendor.base_url_name or "", "").strip()
        if (url := own or vendor.base_url) and (has_key or own or name == wanted):
            found.append(_check_reachable(name, url))
    return found or [Finding("online", NOTE, "no provider has a key: nobody was called")]


def _check_reachable(name: str, url: str) -> Finding:
    """One request without a key: any answer will do."""
    what = f"online {name}"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        line = (
            http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
            if parts.scheme == "http"
            else http.client.HTTPSConnection(
                host, port, timeout=TIMEOUT_S, context=ssl.create_default_context()
            )
        )
        try:
            line.request("HEAD", parts.path or "/")
            response = line.getresponse()
            told = response.getheader("date")
        finally:
            line.close()
    except (OSError, ValueError, http.client.HTTPException) as error:
        return Finding(what, WRONG, f"{url.rpartition('@')[2]} does not answer: {error}")
    skew_s = _skew_s(told)
    if skew_s is not None and abs(skew_s) > SKEW_S_MAX:
        return Finding(what, NOTE, f"{host} answers; this machine's clock differs by {skew_s:,.0f} s")
    return Finding(what, OK, f"{host} answers")


def _skew_s(told: str | None) -> float | None:
    """Seconds that this clock is ahead of the other side's."""
    try:
        return time.time() - parsedate_to_datetime(told or "").timestamp()
    except (TypeError, ValueError):
        return None
