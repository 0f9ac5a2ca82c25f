"""The shipped texts of an agent's prompt: files with a version, read once."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

from artelier.agents.minds import PromptArtifact, read_prompt


@lru_cache(maxsize=32)
def template(name: str) -> PromptArtifact:
    """A shipped template, such as `now-1`."""
    path = files("artelier.world.mind") / "templates" / f"{name}.md"
    return read_prompt(path.read_text("utf-8").strip())
