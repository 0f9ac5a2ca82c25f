"""Settings from `artelier.toml` and the environment over it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

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


def document_settings() -> list[dict[str, Any]]:
    """Every setting with its type, default, meaning and variable, for the docs."""
    from artelier.cli.settings.schema import rows

    return rows()
