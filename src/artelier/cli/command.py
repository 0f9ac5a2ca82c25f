"""The decorators that turn a function into a command: shared options, async bodies, exit codes.

A command is a function whose first parameter is its `CliCall`; the options `--db`, `--tenant`, `--config` and
`--json` are added here and may stand before or after the name of the command.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Sequence
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand

from artelier.cli.call import CliCall
from artelier.cli.completion import model_names, tenant_ids
from artelier.cli.exit_codes import report
from artelier.errors import ArtelierError, InvalidRequest, NotFound

Body = Callable[..., Any]


def read_attachments(files: Sequence[str]) -> list[bytes]:
    """Return the content of files that a model is to be shown.

    Errors: `NotFound`; `InvalidRequest` for what is too large, before it is read.
    """
    from artelier.ports.media import ATTACHMENTS_MAX

    if len(files) > ATTACHMENTS_MAX:
        raise InvalidRequest("too many files at once", expected=f"at most {ATTACHMENTS_MAX}", got=len(files))
    return [_read_attachment(file) for file in files]


def _read_attachment(file: str) -> bytes:
    from artelier.ports.media import MEDIUM_BYTES_MAX

    try:
        with open(file, "rb") as opened:
            content = opened.read(MEDIUM_BYTES_MAX + 1)
            size_bytes = max(len(content), os.fstat(opened.fileno()).st_size)
    except (FileNotFoundError, IsADirectoryError, ValueError):
        raise NotFound("no such file", got=file[:200]) from None
    except OSError as error:
        raise InvalidRequest(f"the file cannot be read: {error.strerror}", got=file[:200]) from None
    if size_bytes > MEDIUM_BYTES_MAX:
        raise InvalidRequest(
            f"{file[:200]} is too large to be sent to a model",
            expected=f"at most {MEDIUM_BYTES_MAX} bytes",
            got=size_bytes,
            hint="Scale the image down, or part the document.",
        )
    return content


Database = Annotated[
    str | None,
    typer.Option("--db", metavar="PATH", help="Database: else ARTELIER_DB, else ./.artelier/state.db."),
]
TenantName = Annotated[
    str | None,
    typer.Option(
        "--tenant",
        metavar="ID",
        help="Tenant: else ARTELIER_TENANT, else default.",
        autocompletion=tenant_ids,
    ),
]
Config = Annotated[
    str | None,
    typer.Option("--config", metavar="FILE", help="Settings: else ./artelier.toml, if it is there."),
]
Subject = Annotated[
    str,
    typer.Option("--subject", metavar="NAME", help="Whom it is about: `artelier erase --subject` erases it."),
]

DRAIN_S = 20.0
"""Less than the 30 s that most supervisors leave before they kill."""

DrainS = Annotated[
    float,
    typer.Option(
        "--drain-s",
        metavar="SECONDS",
        min=0,
        max=3600,
        help="How long tools at work may take to end after SIGTERM.",
    ),
]

HealthAddress = Annotated[
    str | None,
    typer.Option(
        "--health", metavar="[HOST:]PORT", help="Answer /livez, /readyz and /metrics there; 0: a free port."
    ),
]

ModelName = Annotated[
    str | None,
    typer.Option(
        "--model", metavar="NAME", help="Else ARTELIER_MODEL, settings, offline.", autocompletion=model_names
    ),
]
Fallbacks = Annotated[
    list[str] | None,
    typer.Option("--fallback", metavar="NAME", help="Model to ask if that one fails; repeatable."),
]
ModelParams = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        metavar="NAME=VALUE",
        help="Parameter of model calls, such as temperature=0.2 or thinking=high; repeatable.",
    ),
]
Attachments = Annotated[
    list[str] | None,
    typer.Option("--attach", metavar="FILE", help="Image, sound, PDF or text to show the model; repeatable."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]

SHARED: dict[str, tuple[Any, Any]] = {
    "db": (Database, None),
    "tenant": (TenantName, None),
    "config": (Config, None),
    "json": (AsJson, False),
}
"""Parameter name to annotation and default."""


HELP_NAMES = {"help_option_names": ["-h", "--help"]}


class PlainCommand(TyperCommand):
    """A command whose usage line shows `GOAL`, not `{GOAL}`."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words of the usage line after the command's name."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]


def alone() -> typer.Typer:
    """A holder of commands that stand at the top, outside of any group."""
    # No rich: plain help costs a third of the time and reads the same in a file.
    return typer.Typer(
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings=HELP_NAMES,
    )


def group(name: str, *, help: str) -> typer.Typer:
    """A group of commands; the shared options may follow its name."""
    app = alone()
    app.info.name, app.info.help = name, help

    @app.callback()
    def shared_options(  # pyright: ignore[reportUnusedFunction] - typer keeps it
        db: Database = None, tenant: TenantName = None, config: Config = None, json: AsJson = False
    ) -> None:
        del db, tenant, config, json  # a command looks them up in its context

    return app


def command(app: typer.Typer, *, example: str, name: str | None = None) -> Callable[[Body], Body]:
    """Register a function `(call, ...)`, plain or async, as a command.

    It returns its exit code, or None for 0. `example` ends the help text.
    """

    def register(body: Body) -> Body:
        signature = inspect.signature(body, eval_str=True)
        own = list(signature.parameters.values())[1:]
        shared = [
            inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for key, (kind, default) in SHARED.items()
        ]
        context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)

        @functools.wraps(body)
        def enter(*, context: typer.Context, **given: Any) -> int:
            for key in SHARED:
                given.pop(key)
            return _run(body, _call_of(context), given)

        keywords = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own]
        del enter.__wrapped__  # its signature is another one
        enter.__signature__ = inspect.Signature([*keywords, *shared, context])  # pyright: ignore[reportAttributeAccessIssue] - read by inspect
        enter.__annotations__ = {one.name: one.annotation for one in (*keywords, *shared, context)}
        app.command(name, cls=PlainCommand, epilog=f"Example: {example}", context_settings=HELP_NAMES)(enter)
        return body

    return register


def _call_of(context: typer.Context) -> CliCall:
    """The shared options, those nearest to the command first."""
    found: dict[str, Any] = {}
    at: Any = context
    while at is not None:
        for key in SHARED:
            if found.get(key) in (None, False):
                found[key] = at.params.get(key)
        at = at.parent
    return CliCall(
        db=found["db"], tenant=found["tenant"], config=found["config"], as_json=bool(found["json"])
    )


def _run(body: Body, call: CliCall, given: dict[str, Any]) -> int:
    import asyncio  # 40 ms that no help text needs

    try:
        result = body(call, **_escape_typed(call, given))
        if inspect.iscoroutine(result):
            result = asyncio.run(result)
    except (KeyboardInterrupt, asyncio.CancelledError):
        return call.report_interruption()
    except BrokenPipeError:
        raise
    except Exception as error:  # the boundary of a command: everything becomes an exit code
        return report(error, as_json=call.as_json, marked=_marking(call))
    return result if isinstance(result, int) else 0


def _marking(call: CliCall) -> Callable[[str], str]:
    """Return what takes personal data out of an error, if the settings ask for that and can be read."""
    try:
        policy = call.settings.policy() if call.settings.pii else None
        detectors = () if policy is None else policy.looked_for()
    except ArtelierError:  # it is what the error is about
        return lambda text: text
    if not detectors:
        return lambda text: text
    from artelier.pii.scrubber_registry import marked_by

    return lambda text: marked_by(detectors, text)


def _escape_typed(call: CliCall, given: dict[str, Any]) -> dict[str, Any]:
    """Return what a person typed, in which a look-alike of a placeholder stands for nobody's value."""
    if not any("<" in text for value in given.values() for text in _texts(value)):
        return given
    if not call.settings.pii:
        return given
    from artelier.pii.vault import escape_lookalikes

    def escape(value: object) -> object:
        if isinstance(value, str):
            return escape_lookalikes(value, lambda _: False)
        if isinstance(value, list):
            return [escape(one) for one in cast("list[Any]", value)]
        return value

    return {name: escape(value) for name, value in given.items()}


def _texts(value: object) -> list[str]:
    values = cast("list[Any]", value) if isinstance(value, list) else [value]
    return [one for one in values if isinstance(one, str)]
