"""The artifacts that every world has: services, shipped prompts and workflows, the handbook."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

from artelier.errors import InvalidRequest
from artelier.world.actions import ACTIONS, actions_prompt
from artelier.world.genesis.batch_builder import Made, make
from artelier.world.genesis.services import service_artifacts
from artelier.world.mind_artifacts import prompt_library, workflow_templates
from artelier.world.mind_artifacts.artifact_kinds import WORKFLOW_LIBRARY
from artelier.world.mind_artifacts.builtin_library import PROMPT_LIBRARY, WORKFLOW_TEMPLATES

if TYPE_CHECKING:
    from artelier.world.config import WorldConfig
    from artelier.world.world import World

GENESIS = "genesis"
"""The principal that owns what is shipped and is no service."""

HANDBOOKS: tuple[str, ...] = (
    "handbook",
    "handbook_trading",
    "handbook_memory",
    "handbook_mind",
    "handbook_earning",
)
"""Documents whose text is shipped; `handbook_actions` is derived from the actions themselves."""


async def settle(world: World, *, only: Collection[str] | None = None) -> tuple[str, ...]:
    """Write what every world has, as one batch; the ids that were written. Twice is once.

    `only` are ids of it. Errors: `InvalidRequest` for an id that is none of these; those of `make`.
    """
    made = shipped_artifacts(await world.config())
    if only is not None:
        known = {one.id for one in made}
        if unknown := sorted(set(only) - known):
            raise InvalidRequest(
                "nothing of this name is shipped", expected=", ".join(sorted(known)), got=unknown[0][:160]
            )
        made = [one for one in made if one.id in only]
    return await make(world, made)


def shipped_artifacts(config: WorldConfig) -> list[Made]:
    """Return what `settle` writes into a world of these settings."""
    return [
        *service_artifacts(),
        Made(id=PROMPT_LIBRARY, kind="library", owner=GENESIS, content=prompt_library()),
        Made(id=WORKFLOW_TEMPLATES, kind=WORKFLOW_LIBRARY, owner=GENESIS, content=workflow_templates()),
        *(_document(name, handbook(name)) for name in HANDBOOKS),
        _document("handbook_actions", actions_text(config)),
    ]


def actions_text(config: WorldConfig) -> str:
    """The actions of a world, in the words that its prompts use."""
    allowed = config.actions
    names = None if allowed is None else [name for name in ACTIONS if name in allowed]
    return f"# Actions\n\n{actions_prompt(names).strip()}\n"


@lru_cache(maxsize=16)
def handbook(name: str) -> str:
    return (files("artelier.world.genesis") / "handbook" / f"{name}.md").read_text("utf-8")


def _document(name: str, text: str) -> Made:
    return Made(id=name, kind="document", owner=GENESIS, content=text)
