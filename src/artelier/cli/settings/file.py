"""Settings from `artelier.toml` and the environment over it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec

from artelier.cli.settings.settings import ENVIRONMENT, FILE, Settings
from artelier.errors import InvalidConfig, NotFound


def load_settings(path: str | None, *, environ: Mapping[str, str]) -> Settings:
    """Settings from a file (`path`, else ARTELIER_CONFIG, else `artelier.toml`) and the environment.

    Errors: `NotFound` for a named file that is not there; `InvalidConfig` with file and line, or with the
    variable's name.
    """
    named = path or environ.get("ARTELIER_CONFIG")
    file = Path(named or FILE)
    raw = _read(file, must_exist=named is not None)
    overrides = {name: value for name in ENVIRONMENT if (value := environ.get(name, "").strip())}
    if raw is None and not overrides:
        return Settings()
    from artelier.cli.settings.schema import check_settings

    return check_settings(raw, file=file, overrides=overrides)


def _read(file: Path, *, must_exist: bool) -> str | None:
    try:
        return file.read_text("utf-8")
    except FileNotFoundError:
        if not must_exist:
            return None
        raise NotFound("the settings file is not there", got=str(file)) from None
    except UnicodeDecodeError as error:
        raise InvalidConfig(f"{file} is not UTF-8 text (byte {error.start})") from None
    except OSError as error:
        raise InvalidConfig(f"{file} cannot be read: {error.strerror}") from None


class SettingSource(NamedTuple):
    """A setting with its value and where it comes from: a line of the file, a variable, or the default."""

    key: str
    value: str
    source: str


def sources(path: str | None, *, environ: Mapping[str, str]) -> list[SettingSource]:
    """Return all settings, those with names of the user's (prices, rates) as far as they are set.

    Errors: as of `load_settings`, so that nothing is shown that does not hold.
    """
    import tomllib  # like all of this, not needed to load settings
    from decimal import Decimal

    from artelier.cli.settings.schema import key_lines, line_of, setting_rows

    load_settings(path, environ=environ)
    file = Path(path or environ.get("ARTELIER_CONFIG") or FILE)
    raw = file.read_text("utf-8") if file.exists() else ""
    lines = key_lines(raw)
    told = dict(_flat((), tomllib.loads(raw, parse_float=Decimal)))
    found: list[SettingSource] = []
    for key, default, _, variable in setting_rows():
        place = tuple(key.split("."))
        if "<" in key:
            continue
        if variable and environ.get(variable, "").strip():
            found.append(SettingSource(key, environ[variable].strip(), variable))
        elif place in told:
            where = f"{file}:{line_of(lines, place)}"
            found.append(SettingSource(key, _format_value(told.pop(place)), where))
        else:
            found.append(SettingSource(key, default, "default"))
        told.pop(place, None)
    for place, value in told.items():
        key = ".".join(part if part.isidentifier() else f'"{part}"' for part in place)
        found.append(SettingSource(key, _format_value(value), f"{file}:{line_of(lines, place)}"))
    return found


def _flat(place: tuple[str, ...], table: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], object]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat((*place, key), cast("dict[str, Any]", value))
        else:
            yield (*place, key), value


def _format_value(value: object) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()
