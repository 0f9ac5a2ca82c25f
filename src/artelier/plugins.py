"""Plugins: what other distributions offer through entry points, found, checked and loaded.

A distribution offers something under one of `GROUPS`. It acts only where its name is allowed, by
`[plugins] allow` in `artelier.toml` or by `Kernel.open(plugins=...)`: what is merely installed is never
imported. What comes in Artelier's own wheel is allowed without being named. A plugin defines no event kinds
and no views, since the log must be readable without it.

Read next: `docs/guides/plugins.md`; each `PluginPoint` stands with its user, such as `models/registry.py`.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterable
from functools import cache
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from artelier.errors import InvalidConfig
from artelier.ids import VERSION

OWN = "artelier"
"""The distribution whose members are allowed without being named."""

MODELS = "artelier.models"
TOOLS = "artelier.tools"
TOOL_ADAPTERS = "artelier.tool_adapters"
OPERATION_KINDS = "artelier.operation_kinds"
EMBEDDERS = "artelier.embedders"
IMPORTERS = "artelier.importers"
COMMANDS = "artelier.commands"

GROUPS = (MODELS, TOOLS, TOOL_ADAPTERS, OPERATION_KINDS, EMBEDDERS, IMPORTERS, COMMANDS)
"""The groups of entry points that are read."""

T = TypeVar("T")


class Plugin(NamedTuple):
    """One entry point of an installed distribution."""

    group: str
    name: str
    value: str
    """`module:attribute`, as the distribution declares it."""
    distribution: str
    """Its normalised name, as it is allowed: `acme-models`."""
    version: str = ""
    summary: str = ""

    @property
    def title(self) -> str:
        return f"plugin {self.distribution} ({self.group}: {self.name})"


class PluginBroken(InvalidConfig):
    """A plugin that is allowed cannot be used: it is missing, does not load, or offers something else."""


class PluginWarning(UserWarning):
    """A plugin that is allowed is left out; the message says why and what to do."""


class PluginPoint(NamedTuple, Generic[T]):
    """A place where plugins may add something: how it is checked, and which names are taken."""

    group: str
    accept: Callable[[str, Any], T]
    """Make what is used of the name and the loaded object. Errors: `InvalidConfig` for something else."""
    taken: Callable[[], Collection[str]] = tuple
    """Names of Artelier's own, which no plugin may have."""


def _importer(name: str, loaded: object) -> Callable[..., object]:
    if not callable(loaded):
        raise InvalidConfig(f"{name!r} is no importer", expected="a function", got=repr(loaded)[:80])
    return loaded


IMPORTER_POINT = PluginPoint(IMPORTERS, _importer)
"""A reader of an older format, for `artelier migrate NAME`: see `docs/guides/plugins.md`."""


def normalised(name: str) -> str:
    """Return a distribution's name as it is compared (PEP 503): `Acme_Models` is `acme-models`."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


class Plugins:
    """The plugins that one kernel, or one process, may use.

    `allow` names distributions. `report` is told of each plugin that is left out, once; a warning by default.
    """

    def __init__(
        self, allow: Iterable[str] = (), *, report: Callable[[PluginBroken], object] | None = None
    ) -> None:
        if isinstance(allow, str):
            raise InvalidConfig("plugins", expected="a list of names of distributions", got=repr(allow)[:80])
        self.allow = tuple(dict.fromkeys(normalised(name) for name in allow))
        self._report = report or _warn
        self._loaded: dict[tuple[str, str], Any] = {}

    def names(self, point: PluginPoint[Any]) -> tuple[str, ...]:
        """Return the names that allowed plugins offer at a point, in order; nothing is imported."""
        return tuple(sorted({one.name for one in self._offered(point.group)}))

    def has(self, point: PluginPoint[Any], name: str) -> bool:
        """Return True if a plugin that is allowed offers this name."""
        return any(one.name == name for one in self._offered(point.group))

    def load(self, point: PluginPoint[T], name: str) -> T:
        """Import what an allowed plugin offers under a name. A second call returns the same object.

        Errors: `PluginBroken` if it cannot be used; nothing else is affected. `KeyError` if nobody offers it.
        """
        if (point.group, name) not in self._loaded:
            self._loaded[point.group, name] = load_plugin(point, self._only(point.group, name))
        return self._loaded[point.group, name]

    def load_all(self, point: PluginPoint[T], *, besides: Collection[str] = ()) -> dict[str, T]:
        """Import everything that allowed plugins offer at a point; a broken one is reported and left out.

        `besides`: names that the program itself has given to something else.
        """
        found: dict[str, T] = {}
        for name in self.names(point):
            try:
                if name in besides:
                    raise _broken(
                        self._only(point.group, name),
                        "the program has something of this name itself",
                        hint="Rename one of them",
                    )
                found[name] = self.load(point, name)
            except PluginBroken as error:
                self._report(error)
        return found

    def report_missing(self) -> None:
        """Report each name that is allowed and not installed."""
        if not self.allow:
            return
        present = {one.distribution for one in installed()}
        for name in self.allow:
            if name not in present:
                self._report(missing(name))

    def _offered(self, group: str) -> tuple[Plugin, ...]:
        others = installed() if self.allow else ()
        return (
            *(one for one in own_members() if one.group == group),
            *(
                one
                for one in others
                if one.group == group and one.distribution in self.allow and one.distribution != OWN
            ),
        )

    def _only(self, group: str, name: str) -> Plugin:
        found = [one for one in self._offered(group) if one.name == name]
        if not found:
            raise KeyError(name)
        if found[0].distribution == OWN:  # no plugin takes the place of a member
            return found[0]
        if len(found) > 1:
            names = ", ".join(sorted(one.distribution for one in found))
            raise PluginBroken(
                f"{len(found)} plugins offer {name!r} in {group}",
                expected="one",
                got=names,
                hint="Take one of them out of [plugins] allow (or out of Kernel.open(plugins=...)).",
            )
        return found[0]


def load_plugin(point: PluginPoint[T], plugin: Plugin) -> T:
    """Import one plugin and check what it offers. Errors: `PluginBroken` with the distribution's name."""
    is_own = plugin.distribution == OWN
    if not is_own and plugin.name in point.taken():
        raise _broken(plugin, "its name is one of Artelier's own", hint="Its author must rename it")
    try:
        loaded = import_value(plugin.value)
    except (Exception, SystemExit) as error:  # the boundary to code of others
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise _broken(
            plugin, "it cannot be imported", got=reason[:300], hint="Repair or update it"
        ) from error
    if not is_own:
        _check_definitions(plugin)
    try:
        return point.accept(plugin.name, loaded)
    except InvalidConfig as error:
        hint = "Its author must repair it"
        raise _broken(plugin, error.message, expected=error.expected, got=error.got, hint=hint) from None
    except Exception as error:  # the boundary to code of others: a factory that fails
        reason = f"{type(error).__name__}: {error}"[:300]
        raise _broken(plugin, "it cannot be made", got=reason, hint="Repair or update it") from error


def missing(name: str) -> PluginBroken:
    """Return the error about a plugin that is allowed and not installed."""
    return PluginBroken(
        f"plugin {name} is allowed, but not installed",
        expected="a distribution with entry points of Artelier",
        got="none of this name",
        hint="Install it, or take it out of [plugins] allow (or out of Kernel.open(plugins=...)).",
    )


def _broken(plugin: Plugin, message: str, *, hint: str, **facts: Any) -> PluginBroken:
    without = f", or take {plugin.distribution} out of [plugins] allow (or Kernel.open(plugins=...))."
    return PluginBroken(f"{plugin.title}: {message}", hint=hint + without, plugin=plugin, **facts)


def _warn(error: PluginBroken) -> None:
    warnings.warn(str(error), PluginWarning, stacklevel=4)


def _check_definitions(plugin: Plugin) -> None:
    """Refuse a plugin whose modules define event kinds or views: a log must be readable without it."""
    from artelier.log.contract import View
    from artelier.log.event import registered

    root = plugin.value.partition(":")[0].partition(".")[0]
    kinds = sorted(
        kind for (kind, _), cls in registered().items() if cls.__module__.partition(".")[0] == root
    )
    modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == root]
    own = {
        f"view {value.name}" for module in modules for value in vars(module).values() if _is_new(value, View)
    }
    if kinds or own:
        raise _broken(
            plugin,
            "it defines event kinds or views",
            expected="a plugin that appends no kinds of its own and keeps no tables",
            got=", ".join([*(f"event {kind}" for kind in kinds), *sorted(own)])[:300],
            hint="Its author must keep what it stores in artifacts, results of steps or its own files",
        )


def _is_new(value: object, view: type) -> bool:
    """Return True for a view that no module of Artelier holds: a plugin may import one of those."""
    if not isinstance(value, view):
        return False
    core = (module for name, module in list(sys.modules.items()) if name.partition(".")[0] == "artelier")
    return not any(value is one for module in core for one in vars(module).values())


# Finding


@cache
def installed() -> tuple[Plugin, ...]:
    """Return every entry point of the groups, of all installed distributions.

    Cost: about 30 ms of CPU the first time in a process, mostly the import of `importlib.metadata`.
    """
    from importlib.metadata import distributions

    found: dict[str, list[Plugin]] = {}
    for one in distributions():
        points = [point for point in one.entry_points if point.group in GROUPS]
        if not points:
            continue
        about = one.metadata
        name = normalised(about["Name"])
        summary = about["Summary"] if "Summary" in about else ""
        # Of two of one name Python imports the first on the path.
        found.setdefault(
            name,
            [Plugin(point.group, point.name, point.value, name, one.version, summary) for point in points],
        )
    return tuple(sorted(plugin for those in found.values() for plugin in those))


@cache
def own_members() -> tuple[Plugin, ...]:
    """Return the entry points of Artelier's own distribution, without `importlib.metadata` where possible.

    In a checkout they are read where they are declared: what the installer has copied may be older.
    """
    declared = Path(__file__).parents[2] / "pyproject.toml"
    if declared.is_file():
        import tomllib

        points = tomllib.loads(declared.read_text(encoding="utf-8"))["project"]["entry-points"]
        return tuple(
            Plugin(group, name, value, OWN, VERSION)
            for group in GROUPS
            for name, value in points.get(group, {}).items()
        )
    for place in sys.path:
        file = Path(place or ".") / f"{OWN}-{VERSION}.dist-info" / "entry_points.txt"
        try:
            text = file.read_text(encoding="utf-8")
        except OSError:
            continue
        return tuple(_declared(text))
    return tuple(one for one in installed() if one.distribution == OWN)


def _declared(text: str) -> Iterable[Plugin]:
    """Return the plugins of an `entry_points.txt`, which is an INI file of `name = value`."""
    group = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            group = line.strip("[]")
        elif "=" in line and group in GROUPS:
            name, _, value = line.partition("=")
            yield Plugin(group, name.strip(), value.strip(), OWN, VERSION)


def import_value(value: str) -> object:
    """Import the `module:attribute.attribute` of an entry point."""
    import importlib

    module, _, attributes = value.partition("[")[0].partition(":")
    loaded: Any = importlib.import_module(module.strip())
    for attribute in filter(None, attributes.strip().split(".")):
        loaded = getattr(loaded, attribute)
    return loaded


# The process

_active = Plugins()


def active() -> Plugins:
    """Return the plugins that some kernel of this process, or the settings of its command line, have allowed.

    For what no kernel stands behind: reading a profile, naming an embedder.
    """
    return _active


def activate(allow: Iterable[str]) -> None:
    """Let plugins act in this process too, beside those that are active."""
    global _active
    both = Plugins((*_active.allow, *Plugins(allow).allow))
    if both.allow != _active.allow:
        _active = both
