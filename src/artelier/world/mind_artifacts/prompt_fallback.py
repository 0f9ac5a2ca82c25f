"""The choice of a prompt when a reference may dangle: the artifact, the inline one, or a shipped one."""

from __future__ import annotations

from dataclasses import dataclass

from artelier.errors import InvalidArtifact
from artelier.world.mind_artifacts.artifact_lookup import Reading, Skip
from artelier.world.mind_artifacts.builtin_library import PROMPT_LIBRARY, shipped_prompt
from artelier.world.mind_artifacts.prompt import PromptArtifact, read_plain_prompt, read_prompt

INLINE = "inline"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenPrompt:
    """A prompt and where it is from."""

    prompt: PromptArtifact | None = None
    source: str = ""
    """A ref with its version, `inline`, or the name of the shipped prompt; empty without a prompt."""
    skipped: str = ""
    """Why the artifact does not stand: a `Skip`, or `broken: ...`. For the manifest."""

    @property
    def missing(self) -> bool:
        return self.prompt is None


def choose_prompt(
    reading: Reading | Skip | None, *, inline: str | None = None, shipped: str | None = None
) -> ChosenPrompt:
    """The prompt to render. Never raises for what agents wrote.

    Shapes: `reading` None: no artifact is named; `shipped` is a name of `genesis_prompt_library`, whose
    text of this release stands in even if a world has no such artifact.
    """
    skipped = ""
    if isinstance(reading, Reading):
        try:
            content = reading.content
            plain = read_plain_prompt(content) if isinstance(content, str) else read_prompt(content)
            return ChosenPrompt(prompt=plain, source=reading.ref)
        except InvalidArtifact as error:
            skipped = f"broken: {error.message}"[:200]
    elif reading is not None:
        skipped = reading
    if inline is not None:
        try:
            return ChosenPrompt(prompt=read_plain_prompt(inline), source=INLINE, skipped=skipped)
        except InvalidArtifact as error:
            skipped = skipped or f"broken: {error.message}"[:200]
    if shipped is not None:
        prompt = read_prompt(shipped_prompt(shipped))
        return ChosenPrompt(prompt=prompt, source=f"{PROMPT_LIBRARY}#{shipped}", skipped=skipped)
    return ChosenPrompt(skipped=skipped)
