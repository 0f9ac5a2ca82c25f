"""The shipped texts of an agent's prompt: files with a version, read once."""

from __future__ import annotations

from functools import lru_cache

from artelier.context.builder import shipped_text
from artelier.world.mind_artifacts import PromptArtifact, read_prompt


@lru_cache(maxsize=32)
def template(name: str) -> PromptArtifact:
    """A shipped template, such as `now-1`."""
    return read_prompt(shipped_text("artelier.world.mind", name))
