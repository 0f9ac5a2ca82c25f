"""The shipped texts of missions: files with a version."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files


@lru_cache(maxsize=32)
def template(name: str) -> str:
    """The text of a shipped template, such as `plan-1`."""
    return (files("artelier.missions") / "templates" / f"{name}.md").read_text("utf-8").strip()
