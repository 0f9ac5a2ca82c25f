"""Every setting with its value and where it comes from: a line of the file, a variable, or the default."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec

from artelier.cli.settings.file import document_settings, load_settings
from artelier.cli.settings.settings import FILE
from artelier.cli.settings.toml_lines import key_lines, line_of


class SettingSource(NamedTuple):
    key: str
    value: str
    source: str


def sources(path: str | None, *, environ: Mapping[str, str]) -> list[SettingSource]:
    """All settings, those with names of the user's (prices, rates) as far as they are set.

    Errors: as of `load_settings`, so that nothing is shown that does not hold.
    """
    load_settings(path, environ=environ)
    file = Path(path or environ.get("ARTELIER_CONFIG") or FILE)
    raw = file.read_text("utf-8") if file.exists() else ""
    lines = key_lines(raw)
    told = dict(_flat((), tomllib.loads(raw, parse_float=Decimal)))
    found: list[SettingSource] = []
    for row in document_settings():
        place = tuple(row["key"].split("."))
        if "<" in row["key"]:
            continue
        variable = row["variable"]
        if variable and environ.get(variable, "").strip():
            found.append(SettingSource(row["key"], environ[variable].strip(), variable))
        elif place in told:
            where = f"{file}:{line_of(lines, place)}"
            found.append(SettingSource(row["key"], _format_value(told.pop(place)), where))
        else:
            found.append(SettingSource(row["key"], str(row["default"]), "default"))
        told.pop(place, None)
    for place, value in told.items():
        key = ".".join(part if part.isidentifier() else f'"{part}"' for part in place)
        found.append(SettingSource(key, _format_value(value), f"{file}:{line_of(lines, place)}"))
    return found


def _flat(place: tuple[str, ...], table: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat((*place, key), cast("dict[str, Any]", value))
        else:
            yield (*place, key), value


def _format_value(value: object) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()
