"""Wording for models: template files with a version, filled once with values that are only data."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_SLOT = re.compile(r"\{\{([a-z_]+)\}\}")


@cache
def _template(name: str) -> str:
    return (files("artelier.tools.skills") / "templates" / name).read_text("utf-8").strip()


def render(name: str, /, **values: str) -> str:
    """A template with its slots filled; what looks like a slot inside a value stays text."""
    return _SLOT.sub(lambda slot: values[slot[1]], _template(name))
