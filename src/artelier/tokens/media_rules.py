"""Media by provider: which types a model takes, its limits, and the most tokens that one can be billed as.

A bound that nobody publishes is None, never a guess: under a limit such a call is refused. The estimate, for
the room in a prompt, is for all alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import ceil

from artelier.ports.media import NO_MEDIA, MediaRules, Medium
from artelier.tokens.model_info import canonical_name

IMAGES = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
SOUNDS = frozenset(("audio/wav", "audio/mpeg"))
PDFS = frozenset(("application/pdf",))

_MIB = 1024 * 1024

RULES_DATE = "2026-11-24"
"""When the bounds below were compared with what providers publish."""

Bound = Callable[[Medium], int | None]


def _pdf(page_tokens: int, medium: Medium) -> int:
    """Return the most for a PDF: a picture of each page, and a token for each byte of its text."""
    return (medium.pages or 0) * page_tokens + medium.text_bytes + 200


# Anthropic: width x height / 750, scaled down to at most 4,784 tokens (2,576 pixels; older models: 1,568
# pixels and 1,600 tokens); a page of a PDF is its text and an image of it.
# platform.claude.com/docs/en/build-with-claude/vision and .../pdf-support
_CLAUDE_IMAGE = 4_784


def _claude(medium: Medium) -> int | None:
    if medium.kind == "pdf":
        return _pdf(_CLAUDE_IMAGE, medium)
    if medium.pixels is None:
        return None
    width, height = medium.pixels
    return min(ceil(width * height / 750), _CLAUDE_IMAGE) + 16


# OpenAI: tiles of 512 pixels after scaling to 2,048 x 768, so eight at most, or patches of 32 pixels.
# developers.openai.com/api/docs/guides/images-vision and .../pdf-files (text and an image of each page)


def _tiled(base: int, tile: int) -> Bound:
    return _of_images(base + 8 * tile)


def _patched(factor: float, patches: int = 1_536) -> Bound:
    return _of_images(ceil(patches * factor) + 16)


def _of_images(image: int) -> Bound:
    def bound(medium: Medium) -> int | None:
        if medium.kind == "pdf":
            return _pdf(image, medium)
        return image if medium.kind == "image" else None

    return bound


# Gemini: 258 tokens a tile of 768 pixels (of 256 at least), or up to 2,240 an image where the resolution is
# chosen. Sounds are 32 a second, at a price of their own that no table here has: their bound is unknown.
# ai.google.dev/gemini-api/docs/tokens and .../media-resolution
_GEMINI_IMAGE = 2_240


def _gemini(medium: Medium) -> int | None:
    if medium.kind == "pdf":
        return _pdf(_GEMINI_IMAGE, medium)
    if medium.pixels is None:
        return None
    width, height = medium.pixels
    side = max(256, min(768, int(min(width, height) / 1.5)))
    return max(_GEMINI_IMAGE, 258 * ceil(width / side) * ceil(height / side))


def _openai(bound: Bound, *, takes_pdf: bool = True) -> MediaRules:
    return MediaRules(types=IMAGES | PDFS if takes_pdf else IMAGES, pages_max=100, bound=bound)


_CLAUDE = MediaRules(
    types=IMAGES | PDFS, bytes_max={"image": 5 * _MIB}, side_pixels_max=8_000, pages_max=100, bound=_claude
)

UNKNOWN = MediaRules(types=IMAGES)
"""Of a model that no table knows: images may be tried where nothing limits the call."""

# By the longest prefix of the name. A model that is not here may take images, and nobody knows their bound.
_RULES: dict[str, MediaRules] = {
    "offline": NO_MEDIA,
    "scripted": NO_MEDIA,
    "recorded": NO_MEDIA,
    "anthropic:claude": _CLAUDE,
    "anthropic:claude-2": NO_MEDIA,
    "anthropic:claude-3-haiku": MediaRules(
        types=IMAGES, bytes_max={"image": 5 * _MIB}, side_pixels_max=8_000, bound=_claude
    ),
    "openai:gpt-3.5": NO_MEDIA,
    "openai:gpt-4": NO_MEDIA,
    "openai:gpt-4-turbo": _openai(_tiled(85, 170), takes_pdf=False),
    "openai:gpt-4o": _openai(_tiled(85, 170)),
    "openai:gpt-4o-mini": _openai(_tiled(2_833, 5_667)),
    "openai:gpt-4.1": _openai(_tiled(85, 170)),
    "openai:gpt-4.1-mini": _openai(_patched(1.62)),
    "openai:gpt-4.1-nano": _openai(_patched(2.46)),
    "openai:gpt-5": _openai(_tiled(70, 140)),
    "openai:gpt-5-mini": _openai(_patched(1.62)),
    "openai:gpt-5-nano": _openai(_patched(2.46)),
    "openai:gpt-5.": MediaRules(types=IMAGES | PDFS, pages_max=100),
    "openai:gpt-oss": NO_MEDIA,
    "openai:o1": _openai(_tiled(75, 150)),
    "openai:o1-mini": NO_MEDIA,
    "openai:o1-preview": NO_MEDIA,
    "openai:o3": _openai(_tiled(75, 150)),
    "openai:o3-mini": NO_MEDIA,
    "openai:o4-mini": _openai(_patched(1.72)),
    "google:gemini": MediaRules(types=IMAGES | PDFS | SOUNDS, pages_max=1_000, bound=_gemini),
    "google:gemini-1": NO_MEDIA,
    "google:gemini-1.5": MediaRules(types=IMAGES | PDFS | SOUNDS, pages_max=1_000, bound=_gemini),
    "deepseek:": NO_MEDIA,
    # A request with base64 is at most 4 MB, with five images. console.groq.com/docs/vision
    "groq:": MediaRules(types=IMAGES, bytes_max={"image": 3 * 1_000_000}, count_max=5),
}

_SAME_API = re.compile(r"\Aopenai-(?:chat|responses):")


def media_rules(model: str) -> MediaRules:
    """Return what a model takes by its name. `UNKNOWN` for one that no table has."""
    name = _SAME_API.sub("openai:", canonical_name(model))
    prefix = max((key for key in _RULES if name.startswith(key)), key=len, default=None)
    return UNKNOWN if prefix is None else _RULES[prefix]


def estimate_media_tokens(medium: Medium) -> int:
    """Return about how many tokens a medium takes in a prompt, whoever the provider is."""
    if medium.kind == "image":
        width, height = medium.pixels or (1_024, 1_024)
        return min(1_600, max(64, width * height // 750))
    if medium.kind == "audio":
        return 32 * (medium.seconds or 60)
    if medium.kind == "text":
        return medium.text_bytes // 4
    return (medium.pages or 1) * 1_600 + medium.text_bytes // 4
