"""Settings: `artelier.toml`, the environment over it, and what holds if neither speaks.

Every key is declared in `schema.py`; one that is not there is an error with its line, never ignored. Read
next: `schema.py` for the keys, `docs/settings.md` for their table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from artelier.errors import InvalidConfig

if TYPE_CHECKING:
    from artelier.kernel import Limits, Policy, Rate
    from artelier.kernel.policy import Workspaces
    from artelier.kernel.rates import Quotas
    from artelier.ports.model import Price
    from artelier.ports.tool import ToolPort
    from artelier.ports.webhook import IncomingWebhook, OutgoingWebhook
    from artelier.tokens.model_info import PartialWindow
    from artelier.tools.http_rules import HttpRule
    from artelier.tools.mcp.configuration import ServerEntry

FILE = "artelier.toml"
"""Read from the working directory if it is there."""

ENVIRONMENT: dict[str, tuple[str, str]] = {
    "ARTELIER_MODEL": ("model", "default"),
    "ARTELIER_MODEL_TIMEOUT_S": ("model", "timeout_s"),
    "ARTELIER_DB": ("store", "path"),
    "ARTELIER_WORKSPACES": ("workspaces", "root"),
    "ARTELIER_LIMITS_USD": ("limits", "usd"),
    "ARTELIER_LIMITS_TOKENS": ("limits", "tokens"),
    "ARTELIER_LIMITS_STEPS": ("limits", "steps"),
    "ARTELIER_LIMITS_WALL_S": ("limits", "wall_s"),
    "ARTELIER_POLICY_APPROVE_RISK": ("policy", "approve_risk"),
    "ARTELIER_PII": ("pii", "enabled"),
    "ARTELIER_CONFINEMENT": ("sandbox", "confinement"),
    "ARTELIER_OTEL": ("telemetry", "enabled"),
    "ARTELIER_OTEL_CONTENT": ("telemetry", "content"),
}
"""Variable to the setting that it overrides. ARTELIER_CONFIG names the file itself."""

MODEL = "offline"
"""The model if nobody names one: it needs no key and no network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of this call, without the options of the command line."""

    model: str = MODEL
    model_timeout_s: float | None = None
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    store_path: str | None = None
    usd: str | None = None
    tokens: int | None = None
    steps: int | None = None
    wall_s: float | None = None
    approve_risk: str | None = None
    pii: bool = False
    confinement: str = "auto"
    patterns: Mapping[str, str] = field(default_factory=dict[str, str])
    telemetry: bool = False
    telemetry_content: bool = False
    prices: Mapping[str, Price] = field(default_factory=dict[str, "Price"])
    windows: Mapping[str, PartialWindow] = field(default_factory=dict[str, "PartialWindow"])
    models: tuple[str, ...] | None = None
    rates: Mapping[str, Rate] = field(default_factory=dict[str, "Rate"])
    http_rules: tuple[HttpRule, ...] = ()
    quotas: Quotas | None = None
    workspace_root: str | None = None
    workspace_tenants: Mapping[str, str] = field(default_factory=dict[str, str])
    plugins: tuple[str, ...] = ()
    mcp_servers: tuple[ServerEntry, ...] = ()
    webhooks_out: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    webhooks_in: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])

    def limits(self, *, usd: str | None = None) -> Limits | None:
        """Caps of a new run; `usd` was said on the command line. None if there are none."""
        from artelier.kernel import Limits

        limits = Limits(usd=usd or self.usd, tokens=self.tokens, steps=self.steps, wall_s=self.wall_s)
        return None if limits == Limits() else limits

    def policy(self, *, is_enforced: bool = False) -> Policy:
        """Return what the kernel demands of every run; `is_enforced`: no less than `Policy.enforced()`."""
        from artelier.kernel import Policy
        from artelier.kernel.policy import lower_risk

        policy = Policy(
            approve_risk=self.approve_risk,
            pii=self.pii,
            patterns=self.patterns,
            models=self.models,
            rates=self.rates,
        )
        if is_enforced:
            least = Policy.enforced()
            risk = lower_risk(self.approve_risk, least.approve_risk)
            policy = replace(policy, pii=least.pii, approve_risk=risk)
        if self.model_timeout_s is None:
            return policy
        return replace(policy, model_timeout_s=self.model_timeout_s)

    def workspaces(self) -> Workspaces:
        """Return the folders that the tools of each tenant may use. Errors: `InvalidConfig`."""
        from artelier.kernel.policy import ANY_FOLDER, Workspaces

        if self.workspace_root is None and not self.workspace_tenants:
            return ANY_FOLDER
        return Workspaces(base=self.workspace_root, roots=self.workspace_tenants)

    def tools(self, *, environ: Mapping[str, str]) -> list[ToolPort]:
        """Shipped tools that are off until somebody says what they may do."""
        if not self.http_rules:
            return []
        from artelier.tools.http_json import http_json_tool

        return [http_json_tool(self.http_rules, environ=environ)]

    def outgoing_webhooks(self, *, environ: Mapping[str, str]) -> tuple[OutgoingWebhook, ...]:
        """Return where events are sent. Errors: `InvalidConfig`, also for a secret that is not there."""
        if not self.webhooks_out:
            return ()
        from artelier.ports.webhook import DEFAULT_EVENTS, OutgoingWebhook
        from artelier.tools.http_rules import HttpRule

        found: list[OutgoingWebhook] = []
        for name, one in self.webhooks_out.items():
            HttpRule(url=one["url"], private=one["private"])  # the same form as of any address outside
            given: dict[str, Any] = dict(one)
            given["secret"] = _secret(given["secret"], f"webhooks.out.{name}", environ)
            given["events"] = tuple(given["events"] or DEFAULT_EVENTS)
            found.append(OutgoingWebhook(name=name, **given))
        return tuple(found)

    def incoming_webhooks(self, *, environ: Mapping[str, str]) -> tuple[IncomingWebhook, ...]:
        """Return who may send signed requests. Errors: as of `outgoing_webhooks`."""
        if not self.webhooks_in:
            return ()
        from artelier.ports.webhook import IncomingWebhook

        found: list[IncomingWebhook] = []
        for name, one in self.webhooks_in.items():
            given: dict[str, Any] = dict(one)
            secret = given.pop("secret")
            texts: list[str] = [secret] if isinstance(secret, str) else list(secret)
            given["secrets"] = tuple(_secret(text, f"webhooks.in.{name}", environ) for text in texts)
            given["actions"] = tuple(given["actions"])
            found.append(IncomingWebhook(name=name, **given))
        return tuple(found)


def _secret(text: str, place: str, environ: Mapping[str, str]) -> str:
    """Return a secret that a variable holds. Errors: `InvalidConfig` that names the variable."""
    name = text.removeprefix("env:")
    if name == text or not name:
        raise InvalidConfig(
            f"{place}: the secret stands in the file",
            expected='secret = "env:NAME", with the secret in that variable',
            got=f"{len(text)} characters",
        )
    if not (found := environ.get(name, "").strip()):
        raise InvalidConfig(
            f"{place}: the secret is not there", expected=f"the variable {name}", got="nothing"
        )
    return found
