"""One call of a command: which database, tenant and settings it is about, and the kernel it opens."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import AsyncGenerator, Generator, Iterable
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from artelier.cli.display import Screen
from artelier.cli.exit_codes import INTERRUPTED
from artelier.errors import NotFound
from artelier.ids import check_tenant
from artelier.money import parse_usd

if TYPE_CHECKING:
    from artelier.app import Kernel
    from artelier.cli.brought_tools import BroughtTools
    from artelier.cli.settings.settings import Settings
    from artelier.kernel.policy import Workspaces
    from artelier.ports.telemetry import Telemetry
    from artelier.ports.tool import ToolPort

DATABASE = "./.artelier/state.db"
"""Where the store is if nobody says otherwise."""


class CliCall:
    """The shared options of one command, and what they lead to."""

    def __init__(self, *, db: str | None, tenant: str | None, config: str | None, as_json: bool) -> None:
        self._db = db
        self._tenant = tenant
        self._config = config
        self.as_json = as_json
        self.screen = Screen(as_json=as_json)
        self._brought: list[str] = []
        """The options of the tools that this command was given."""
        self.resumable: str | None = None
        """The run that a Ctrl-C leaves resumable, once there is one; its command line."""

    @cached_property
    def settings(self) -> Settings:
        """Errors: `InvalidConfig` naming file and line, `NotFound` for a file that is not there."""
        from artelier.cli.settings.file import load_settings

        found = load_settings(self._config, environ=os.environ)
        if found.confinement != "auto":
            from artelier.confinement import choose

            choose(found.confinement)
        return found

    def allow_plugins(self) -> None:
        """Let the plugins of the settings act where no kernel is opened: in reading a profile."""
        from artelier.plugins import activate

        activate(self.settings.plugins)

    @property
    def config(self) -> str | None:
        """The file of settings if somebody named one, for processes that are started."""
        return self._config

    @property
    def database(self) -> str:
        return self._db or self.settings.store_path or DATABASE

    @property
    def tenant(self) -> str:
        """Errors: `InvalidRequest` for what no tenant can be called."""
        return self.named_tenant or "default"

    @property
    def named_tenant(self) -> str | None:
        """The tenant if somebody named one, for commands that are about all tenants otherwise."""
        named = self._tenant or os.environ.get("ARTELIER_TENANT")
        return check_tenant(named) if named else None

    @cached_property
    def person(self) -> str:
        """The actor of commands given here, as the log names them: `user:<login>`."""
        import getpass

        try:
            login = getpass.getuser()
        except (KeyError, OSError):  # a uid without a name
            login = str(os.getuid())
        return "user:" + "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in login)

    def print_json(self, value: object, **more: object) -> bool:
        """Print a value as JSON, with more fields of its object, if JSON is asked for; return True then."""
        if self.as_json:
            self.screen.json({**msgspec.to_builtins(value), **more} if more else value)
        return self.as_json

    def dollars(self, amount: str | None) -> str | None:
        """An amount given as `--budget-usd`, checked before anything begins. Errors: `InvalidRequest`."""
        if amount is not None:
            parse_usd(amount)
        return amount

    def command_line(self, *words: str) -> str:
        """Return how to type another command about the same database and tenant."""
        from artelier.log.places import label_of

        shared: list[str] = []
        for name, value in (("--db", self._db), ("--tenant", self._tenant), ("--config", self._config)):
            if value is not None:
                shared += [name, label_of(value) if name == "--db" else value]
        # Without its tools a run cannot go on.
        brought = self._brought if words[0] in ("resume", "chat", "do", "up") else []
        return shlex.join(["artelier", *words, *brought, *shared])

    @property
    def database_label(self) -> str:
        """The database as people may read it: without the user and the password of an address."""
        from artelier.log.places import label_of  # with the log 40 ms, which `--help` need not spend

        return label_of(self.database)

    def existing(self, database: str | None = None) -> str:
        """The place of the database, or of another one.

        Errors: `NotFound` if there is none; nothing is created.
        """
        from artelier.log.places import exists, file_of, is_address, label_of

        place = database or self.database
        if not exists(place):
            raise NotFound(
                "there is no database here yet",
                got=label_of(place) if is_address(place) else file_of(place),
                hint="Name one with --db or ARTELIER_DB; `artelier do` and `artelier run` make one.",
            )
        return place

    @contextlib.asynccontextmanager
    async def kernel(
        self,
        *,
        create: bool = False,
        tools: Iterable[ToolPort] = (),
        is_enforced: bool = False,
        workspaces: Workspaces | None = None,
        brought: BroughtTools | None = None,
    ) -> AsyncGenerator[Kernel]:
        """The open store. Without `create` it must be there already.

        `is_enforced`: whatever the settings say, no less than `Policy.enforced()` holds. `workspaces`: in
        place of those of the settings. `brought`: tools that the command line names; they are named again
        wherever a command line says how a run goes on.
        Errors: `NotFound`, `CorruptStore`, `NewerSchema`, `StoreUnavailable`; `InvalidConfig` for personal
        data without a key.
        """
        from artelier.app import Kernel
        from artelier.cli.brought_tools import BroughtTools
        from artelier.plugins import Plugins

        if not create:
            self.existing()
        brought = brought or BroughtTools()
        self._brought = brought.words
        plugins = Plugins(self.settings.plugins, report=lambda error: self.screen.note(str(error), "yellow"))
        async with contextlib.AsyncExitStack() as stack:
            own = await stack.enter_async_context(brought.open(self.screen, self.settings, plugins))
            telemetry = stack.enter_context(self._telemetry())
            kernel = Kernel.open(
                self.database,
                tools=[*tools, *own, *self.settings.tools(environ=os.environ)],
                policy=self.settings.policy(is_enforced=is_enforced),
                params=self.settings.params,
                prices=self.settings.prices,
                windows=self.settings.windows,
                telemetry=telemetry,
                workspaces=workspaces or self.settings.workspaces(),
                quotas=self.settings.quotas,
                plugins=plugins,
                webhooks=self.settings.outgoing_webhooks(environ=os.environ),
            )
            try:
                if parked := await brought.add_skills(kernel, self.tenant):
                    names, way = ", ".join(parked)[:300], self.command_line("skills", "show", parked[0])
                    self.screen.note(f"skills that wait for an approval: {names}; look: {way}", "yellow")
                yield kernel
            finally:
                await kernel.aclose()

    @contextlib.contextmanager
    def _telemetry(self) -> Generator[Telemetry | None]:
        """Return who watches the runs of this call. Errors: `InvalidConfig` if it is on and cannot be."""
        if not self.settings.telemetry:
            yield None
            return
        from artelier.telemetry import exporting

        with exporting(environ=os.environ, content=self.settings.telemetry_content) as telemetry:
            yield telemetry

    def report_interruption(self) -> int:
        """Say how to go on after Ctrl-C or SIGTERM."""
        if self.as_json:
            wire = {"code": "interrupted", "message": "interrupted", "expected": None, "got": None}
            hint = f"Go on with: {self.resumable}" if self.resumable else None
            self.screen.json({"error": {**wire, "hint": hint}})
        elif self.resumable:
            self.screen.note(f"interrupted; go on with: {self.resumable}", "yellow")
        return INTERRUPTED


def name_of(text: str) -> str:
    """A readable id: the first words of a goal."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    name = ""
    for word in words:
        if len(name) + len(word) > 28:
            break
        name = f"{name}-{word}" if name else word
    return name or "run"


def fresh_id(text: str) -> str:
    """A readable id for a new run: the first words of its goal and four random characters."""
    import secrets  # with its hashes 3 ms, which `--help` need not spend

    alphabet = "abcdefghjkmnpqrstuvwxyz23456789"  # none that are mistaken for another
    return f"{name_of(text)}-{''.join(secrets.choice(alphabet) for _ in range(4))}"
