"""The registry that finds the port for a model's name, checked before any money is reserved."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from artelier.errors import InvalidConfig, MissingKey, UnknownModel
from artelier.models.vendors import NO_KEY, VENDORS, Endpoint, Vendor, check_url
from artelier.plugins import MODELS, PluginPoint, Plugins
from artelier.ports.model import ModelPort
from artelier.tokens.model_info import BUILT_IN, canonical_name, split_name

if TYPE_CHECKING:
    from artelier.models.provider import ProviderModel

OFFLINE = "offline"
"""The model of Artelier's own wheel."""

_NAME_CHARS_MAX = 200
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Resolved(NamedTuple):
    """The canonical name of a model, and who answers for it."""

    name: str
    port: ModelPort


class ModelRegistry:
    """Models by name: what the caller brought, then what plugins offer (`offline` too), then the providers.

    `overrides` is one port that answers every name, or a mapping from a name (`offline`, `gpt-4o-mini`,
    `openai:gpt-4o-mini`), a provider (`openai` or `openai:`) or any prefix of canonical names to a port.
    Exact names win over providers, providers over prefixes, longer prefixes over shorter ones.

    `environ` is where keys and base URLs are read, at each `resolve`. `plugins`: those that may act.

    Errors: `InvalidConfig` if something given is no model.
    """

    def __init__(
        self,
        overrides: Mapping[str, ModelPort] | ModelPort | None = None,
        *,
        environ: Mapping[str, str],
        plugins: Plugins | None = None,
    ) -> None:
        self._environ = environ
        self._plugins = plugins or Plugins()
        self._every: ModelPort | None = None
        self._exact: dict[str, ModelPort] = {}
        self._prefixes: dict[str, ModelPort] = {}
        self._built: dict[tuple[str, Endpoint], ProviderModel] = {}
        self._offline: ModelPort | None = None
        if overrides is None:
            return
        if not isinstance(overrides, Mapping):
            self._every = _check_port("every model", overrides)
            return
        for key, port in overrides.items():
            self._prefixes[key.strip()] = self._exact[canonical_name(key)] = _check_port(key, port)

    def resolve(self, name: str) -> Resolved:
        """Return who answers for `name`.

        Errors: `UnknownModel` for a name or provider that nobody knows or that is not installed;
        `MissingKey` if the provider's key is not in the environment.
        """
        canonical = self._checked_name(name)
        port = self._every or self._override(canonical) or self._plugged(canonical)
        return Resolved(canonical, port if port is not None else self._provider(canonical))

    def keys(self) -> dict[str, bool]:
        """Each provider that needs a key, and whether one is in the environment. Never the key."""
        return {
            provider: any(self._environ.get(name, "").strip() for name in vendor.key_names)
            for provider, vendor in VENDORS.items()
            if vendor.needs_key
        }

    async def aclose(self) -> None:
        """Close the provider connections that this event loop opened."""
        for port in self._built.values():
            await port.aclose()

    def _override(self, canonical: str) -> ModelPort | None:
        if (exact := self._exact.get(canonical)) is not None:
            return exact
        provider, _ = split_name(canonical)
        for key in (provider, f"{provider}:"):
            if key in self._prefixes:
                return self._prefixes[key]
        keys = [
            key
            for key in self._prefixes
            if canonical.startswith(key) or canonical.startswith(canonical_name(key))
        ]
        return self._prefixes[max(keys, key=len)] if keys else None

    def _checked_name(self, name: object) -> str:
        if (
            not isinstance(name, str)
            or not name.strip()
            or len(name) > _NAME_CHARS_MAX
            or _CONTROL.search(name)
        ):
            raise UnknownModel(
                "not the name of a model",
                expected=f"a name such as {self._known_names()}",
                got=repr(name)[:80],
            )
        return canonical_name(name)

    def pace_offline(self, pace_s: float) -> None:
        """Let the built-in offline model take so many seconds for a reply. Errors: `InvalidConfig`."""
        plain: Any = self._plugged("offline")
        self._offline = type(plain)(pace_s=pace_s)

    def _plugged(self, canonical: str) -> ModelPort | None:
        """Return the model that a plugin offers under the name or its provider. Errors: `PluginBroken`."""
        if canonical == OFFLINE:
            if self._offline is not None:
                return self._offline
            if not self._plugins.has(MODEL_POINT, OFFLINE):
                raise UnknownModel(
                    "the offline model is not registered",
                    hint="The installation is older than the code: install it again, or make setup.",
                )
            return self._plugins.load(MODEL_POINT, OFFLINE)
        provider, _ = split_name(canonical)
        for name in self._plugins.names(MODEL_POINT):
            if canonical_name(name) == canonical or name == provider:
                return self._plugins.load(MODEL_POINT, name)
        return None

    def _provider(self, canonical: str) -> ModelPort:
        provider, model = split_name(canonical)
        vendor = VENDORS.get(provider)
        if vendor is None or not model:
            raise UnknownModel(
                f"no model is called {canonical!r}",
                expected=self._known_names(),
                got=repr(canonical),
                hint="Pass it in models={...} if it is your own."
                if canonical in BUILT_IN
                else "Write it as provider:model, or pass your own in models={...}.",
            )
        _check_installed(provider, vendor)
        endpoint = self._endpoint(provider, vendor)
        built = self._built.get((provider, endpoint))
        if built is None:
            from artelier.models.provider import ProviderModel, local_price

            built = self._built[provider, endpoint] = ProviderModel(
                vendor.build, endpoint, key_name=vendor.key_names[0], price=local_price(endpoint.base_url)
            )
        return built

    def _endpoint(self, provider: str, vendor: Vendor) -> Endpoint:
        key = next((k for n in vendor.key_names if (k := self._environ.get(n, "").strip())), "")
        named_url = self._environ.get(vendor.base_url_name or "", "").strip()
        if not key and vendor.needs_key and not named_url:
            raise MissingKey(
                f"{provider}: needs a key",
                expected=f"the environment variable {' or '.join(vendor.key_names)}",
                got="nothing",
                hint="Set it, or use --model offline to try things out without a provider.",
            )
        if not key.isascii() or not key.isprintable() or " " in key:
            # Sent in a header; an HTTP library would quote it in its error.
            raise MissingKey(
                f"{provider}: the key is not usable",
                expected=f"printable ASCII without spaces in {vendor.key_names[0]}",
                got=f"{len(key)} characters with others among them",
            )
        if named_url:
            check_url(named_url, name=vendor.base_url_name or "the base URL")
        return Endpoint(
            provider=provider,
            api_key=key or NO_KEY,
            base_url=named_url or vendor.base_url,
            is_custom=bool(named_url),
        )

    def _known_names(self) -> str:
        mine = sorted(key for key in self._prefixes)
        offered = self._plugins.names(MODEL_POINT)
        return ", ".join([*mine, *offered, *(f"{name}:<model>" for name in VENDORS)])


def _check_installed(provider: str, vendor: Vendor) -> None:
    for module in ("pydantic_ai", vendor.module):
        try:
            found = importlib.util.find_spec(module)
        except ModuleNotFoundError:  # the parent of a dotted name
            found = None
        if found is None:
            raise UnknownModel(
                f"{provider}: is not installed",
                expected=f"the extra {vendor.extra!r}",
                got=f"no module {module}",
                hint=f"uv add 'artelier[{vendor.extra}]' (or pip install).",
            )


def _made(name: str, loaded: object) -> ModelPort:
    """Return the model of a plugin: what it offers, or what that returns when it is called."""
    is_port = not isinstance(loaded, type) and callable(getattr(loaded, "complete", None))
    port = loaded if is_port or not callable(loaded) else loaded()
    if not callable(getattr(port, "complete", None)):
        raise InvalidConfig(
            f"{name!r} is no model",
            expected="an object with an async complete(request), or a class or function that makes one",
            got=repr(port)[:80],
        )
    return cast(ModelPort, port)


MODEL_POINT = PluginPoint(MODELS, _made, taken=lambda: (*BUILT_IN, *VENDORS))
"""A model under its name, or a provider whose name stands before the colon."""


def _check_port(key: str, port: object) -> ModelPort:
    if not callable(getattr(port, "complete", None)):
        raise InvalidConfig(
            f"what models= has for {key!r} is no model",
            expected="an object with an async complete(request)",
            got=repr(port)[:80],
        )
    return cast(ModelPort, port)
