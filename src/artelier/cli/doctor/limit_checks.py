"""`artelier doctor`: what the settings allow, and how fast."""

from __future__ import annotations

from artelier.cli import display
from artelier.cli.call import CliCall
from artelier.cli.doctor.result import NOTE, OK, WRONG, Finding
from artelier.errors import ArtelierError


def looks(call: CliCall) -> list[Finding]:
    """Personal data, allowed models, rates, approvals and the servers of `http_json`."""
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
    import os

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
