"""From a reading of steering to the guidance of one iteration, and to the bounds that the kernel holds."""

from __future__ import annotations

from typing import Any, cast

from artelier.kernel import RunCore
from artelier.missions.guidance import OUTPUT_BYTES, Guidance


def guidance_of(reading: Any, core: RunCore) -> Guidance:
    """Steering as it was read, with what a fork has changed; from now on the run's core obeys it."""
    found = cast("dict[str, Any]", reading or {})
    own = cast("list[Any] | None", found.get("agent"))
    shared = cast("list[list[Any]]", found.get("membranes") or [])
    contents = [cast("dict[str, Any]", one[1]) for one in ([own] if own else []) + shared]
    off = {
        name: "it is switched off" for content in contents
        for name, on in content.get("tools", {}).items() if on is False
    }  # fmt: skip
    core.barred = off
    sliders = [content.get("sliders", {}) for content in contents]
    return Guidance(
        iterations=min(
            (one["iterations"] for one in sliders if one.get("iterations")), default=None
        ),
        output_bytes=min(
            (one.get("output_bytes") or OUTPUT_BYTES for one in sliders), default=OUTPUT_BYTES
        ),
        refs=tuple(str(one[0]) for one in ([own] if own else []) + shared),
    )
