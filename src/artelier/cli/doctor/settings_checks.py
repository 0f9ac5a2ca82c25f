"""`artelier doctor`: what the settings allow, and how fast; which plugins may act; with `--online`, whether
providers answer, and how far their clocks are from ours.
"""

from __future__ import annotations

import http.client
import os
import ssl
import time
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from artelier.cli import display
from artelier.cli.call import CliCall
from artelier.cli.doctor.result import NOTE, OK, WRONG, Finding
from artelier.errors import ArtelierError
from artelier.plugins import OWN, Plugin, PluginPoint, Plugins, installed, missing

TIMEOUT_S = 5.0
SKEW_S_MAX = 30.0
"""Beyond it certificates and signatures begin to fail (a guess)."""


def check_limits(call: CliCall) -> list[Finding]:
    """Check personal data, allowed models, rates, approvals and the servers of `http_json`."""
    return [_personal(call), _check_models(call), _rates(call), _approvals(call), _http(call)]


def _personal(call: CliCall) -> Finding:
    if not call.settings.pii:
        said = "off: models and the store get it as it is (enabled under [pii] in artelier.toml)"
        return Finding("personal data", NOTE, said)
    more = ", ".join(sorted(call.settings.patterns))
    said = "replaced before a model or the store gets it"
    return Finding("personal data", OK, f"{said}; also looked for: {more}" if more else said)


def _check_models(call: CliCall) -> Finding:
    from artelier.tokens.model_info import canonical_name

    policy = call.settings.policy()
    if policy.models is None:
        return Finding("models", OK, "every model may be called")
    name = canonical_name(call.settings.model)
    listed = ", ".join(policy.models) or "none"
    if not policy.allows_model(name):
        return Finding(
            "models",
            WRONG,
            f"allowed: {listed}; the default {name!r} is not among them: change `default` or `allow` under"
            " [model]",
        )
    return Finding("models", OK, f"allowed: {listed}")


def _rates(call: CliCall) -> Finding:
    from artelier.models.vendors import VENDORS
    from artelier.tokens.model_info import BUILT_IN

    said = display.speeds({name: rate.plain() for name, rate in call.settings.rates.items()})
    known = {*VENDORS, *BUILT_IN}
    odd = [name for name in call.settings.rates if name not in known and not set(name) & set(":*?[")]
    if odd:
        why = f"no provider is called {', '.join(odd)}: this limits the models of openai that are called so"
        return Finding("rates", NOTE, f"a minute, {said}; {why}")
    return Finding("rates", OK, f"a minute, {said}" if said else "no limit of speed")


def _approvals(call: CliCall) -> Finding:
    risk = call.settings.approve_risk
    if risk is None:
        return Finding("approvals", OK, "no risk class of tools needs a person's yes")
    return Finding("approvals", OK, f"tools of risk {risk} and above need a person's yes")


def _http(call: CliCall) -> Finding:
    """Return which servers `http_json` may ask, and whether the secrets are there."""
    rules = call.settings.http_rules
    if not rules:
        said = "off: no URL is allowed ([tools.http] allow in artelier.toml)"
        return Finding("http_json", NOTE, said)
    missing: list[str] = []
    for rule in rules:
        try:
            rule.fill_headers(os.environ)
        except ArtelierError as error:
            missing.append(str(error))
    if missing:
        return Finding("http_json", WRONG, "; ".join(missing))
    return Finding("http_json", OK, ", ".join(rule.url for rule in rules))


def check_plugins(call: CliCall) -> list[Finding]:
    """Return a line for each distribution with plugins. Those that are allowed are loaded."""
    allowed = Plugins(call.settings.plugins)
    groups: dict[str, list[Plugin]] = {}
    for one in installed():
        if one.distribution != OWN:
            groups.setdefault(one.distribution, []).append(one)
    lines = [_check_plugin(name, those, allowed) for name, those in sorted(groups.items())]
    lines += [Finding("plugin", WRONG, str(missing(name))) for name in allowed.allow if name not in groups]
    return lines or [Finding("plugins", OK, "none installed")]


def _check_plugin(name: str, those: list[Plugin], allowed: Plugins) -> Finding:
    offered = ", ".join(f"{one.group.removeprefix('artelier.')} {one.name}" for one in those)
    title = f"{name} {those[0].version}: {offered}"
    if name not in allowed.allow:
        return Finding(
            "plugin", NOTE, f'{title}; installed, not allowed: [plugins] allow = ["{name}"] lets it act'
        )
    problems: list[str] = []
    points = plugin_points()
    for one in those:
        try:
            allowed.load(points[one.group], one.name)
        except ArtelierError as error:
            problems.append(str(error))
    if problems:
        return Finding("plugin", WRONG, f"{title}; allowed, broken: {' '.join(problems)}")
    return Finding("plugin", OK, f"{title}; allowed")


def plugin_points() -> dict[str, PluginPoint[Any]]:
    """Return every place where a plugin may add something, by its group of entry points."""
    from artelier.cli.plugin_commands import COMMAND_POINT
    from artelier.memory.embedders.registry import EMBEDDER_POINT
    from artelier.models.registry import MODEL_POINT
    from artelier.operations.kinds import KIND_POINT
    from artelier.plugins import IMPORTER_POINT
    from artelier.tools.adapters import ADAPTER_POINT
    from artelier.tools.function import TOOL_POINT

    points = (
        MODEL_POINT,
        TOOL_POINT,
        ADAPTER_POINT,
        KIND_POINT,
        EMBEDDER_POINT,
        IMPORTER_POINT,
        COMMAND_POINT,
    )
    return {point.group: point for point in points}


def check_providers(call: CliCall) -> list[Finding]:
    """Ask the providers that have a key, and that of the model that holds."""
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
    """Send one request without a key: any answer will do."""
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
    """Return the seconds that this clock is ahead of the other side's."""
    try:
        return time.time() - parsedate_to_datetime(told or "").timestamp()
    except (TypeError, ValueError):
        return None
