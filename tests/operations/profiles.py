"""Profiles for tests of sessions: templates only, so that nothing depends on a model."""

from __future__ import annotations

from typing import Any

from artelier import OperationProfile


def template(
    id_: str,
    text: str,
    *,
    hook: str = "after_main_llm",
    order: int = 1,
    tag: str = "",
    usage: str = "prompt+ui",
    effects: tuple[Any, ...] = (),
    **more: Any,
) -> dict[str, Any]:
    """An operation that renders a text, and writes it to a tag if one is named."""
    fields = {"persistence", "write_mode", "retention"} & set(more)
    effect = {"type": "artifact.upsert", "tag": tag, "usage": usage}
    effect |= {name: more.pop(name) for name in fields}
    listed = [*effects, *([effect] if tag else [])]
    return {
        "operation_id": id_,
        "kind": "template",
        "hooks": [hook],
        "order": order,
        "params": {"template": text, "effects": listed},
        **more,
    }


COUNT = "{% if art.mood %}{{ art.mood.value }}{% endif %}{{ text | slice: 0 }}"


def tavern(**fields: Any) -> OperationProfile:
    """State, a feed, a note for prompts alone, one for nobody, one of the run alone."""
    data: dict[str, Any] = {
        "profile_id": "tavern",
        "operations": [
            template("note", "NOTE", hook="before_main_llm", tag="note", usage="prompt_only"),
            template("once", "ONCE", hook="before_main_llm", tag="once", persistence="run_only"),
            template("mood", COUNT, tag="mood"),
            template("feed", "{{ text }}", tag="feed", usage="ui_only", write_mode="append"),
            template("secret", "SECRET", tag="secret", usage="internal"),
        ],
        **fields,
    }
    return OperationProfile.parse(data)
