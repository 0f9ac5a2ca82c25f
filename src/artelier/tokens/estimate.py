"""The number of tokens in a text or media: a cheap estimate, a true upper bound, and corrections from usage.

No tokenizer is loaded: the tables of most are not public or must be downloaded. Assembly of prompts
uses the estimate (an error costs a little room), reservations use the bound (an error costs money).

For media the bound is the provider's, with the types that a model takes and its limits. One that nobody
publishes is None, never a guess: under a limit such a call is refused. The estimate is for all alike.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Literal

from artelier.ports.media import NO_MEDIA, MediaRules, Medium
from artelier.tokens.model_info import longest_prefix, published_name

FRAMING_TOKENS = 768
"""Tokens a provider may bill that are in no byte of the request.

Chat templates take a few tokens per message, which the JSON around each message outweighs. The tool
prompt that Anthropic adds is the largest constant known: 264-530 tokens depending on model and tool
choice (https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/overview); the rest is margin for
the instructions that ask for structured output where a model has no native support.
"""


def estimate_tokens(text: str | bytes) -> int:
    """About how many tokens `text` has: a quarter of its ASCII characters, more for other scripts.

    A character of two UTF-8 bytes counts 0.6 tokens, of three 0.95, of four 1.3, which is near what
    byte-pair encodings with 100,000 to 200,000 entries give for Cyrillic, CJK and emoji.

    Cost: O(n) in C; no per-character loop.
    """
    if isinstance(text, bytes):
        size_bytes = len(text)
        chars = size_bytes if text.isascii() else len(text.decode("utf-8", "replace"))
    else:
        chars = len(text)
        size_bytes = chars if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return tokens_of_counts(chars, size_bytes - chars)


class TextMeter:
    """Counts the tokens of a text that comes in pieces, as `estimate_tokens` would those of the whole.

    Cost: O(length of the piece).
    """

    def __init__(self) -> None:
        self._chars = self._extra_bytes = 0

    def add(self, piece: str) -> None:
        self._chars += len(piece)
        if not piece.isascii():
            self._extra_bytes += len(piece.encode("utf-8", "surrogatepass")) - len(piece)

    @property
    def tokens(self) -> int:
        return tokens_of_counts(self._chars, self._extra_bytes)


def tokens_of_counts(chars: int, extra_bytes: int) -> int:
    """Return what `estimate_tokens` gives for a text of this size.

    `extra_bytes`: those of its UTF-8 beyond one per character.
    """
    # ceil(chars / 4 + 0.35 * extra bytes), in integers so that every machine agrees.
    return -(-(5 * chars + 7 * max(0, extra_bytes)) // 20)


def upper_bound_tokens(size_bytes: int, *, framing_tokens: int = FRAMING_TOKENS) -> int:
    """More tokens than any usual tokenizer makes of `size_bytes` of a request's canonical JSON.

    One token per UTF-8 byte is the hard bound: byte-level BPE (OpenAI, Anthropic, Llama 3, Mistral
    Tekken, Qwen) starts from single bytes and only ever merges, and SentencePiece with byte fallback
    (Llama 2, Gemini, Gemma) falls back to one token per byte at worst. The JSON around each message is
    longer than any chat template. `framing_tokens` covers what a provider adds of its own.
    """
    return max(0, size_bytes) + max(0, framing_tokens)


# --------------------------------------------------------------------------- cut
# Shortening text to a number of tokens, with a mark that says how much is gone.


Where = Literal["start", "end", "middle"]

MARK_TOKENS = 12
"""What the mark itself takes, about."""


def cut(text: str, *, tokens: int, where: Where) -> str:
    """The text within `tokens` (by estimate, mark included): its end, its start or its middle is gone.

    Empty if not even the mark fits. Cost: O(n), a few passes in C.
    """
    if estimate_tokens(text) <= tokens:
        return text
    room = tokens - MARK_TOKENS
    if room <= 0:
        return ""
    kept = _fitting(text, room, where)
    gone = len(text) - kept
    mark = f"[... {gone:,} characters left out ...]"
    if where == "end":
        return f"{text[:kept]}\n{mark}"
    if where == "start":
        return f"{mark}\n{text[gone:]}"
    head = (kept + 1) // 2
    return f"{text[:head]}\n{mark}\n{text[len(text) - (kept - head) :]}"


def _fitting(text: str, tokens: int, where: Where) -> int:
    """Return how many characters may stay. Tokens are not evenly spread, so the guess is refined."""
    low, high = 0, len(text)
    kept = min(high, tokens * 4)
    for _ in range(24):
        if estimate_tokens(_join_kept(text, kept, where)) <= tokens:
            low = kept
        else:
            high = kept - 1
        if low >= high:
            break
        kept = (low + high + 1) // 2
    return low


def _join_kept(text: str, count: int, where: Where) -> str:
    if where == "end":
        return text[:count]
    if where == "start":
        return text[len(text) - count :]
    head = (count + 1) // 2
    return text[:head] + text[len(text) - (count - head) :]


IMAGES = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
SOUNDS = frozenset(("audio/wav", "audio/mpeg"))
PDFS = frozenset(("application/pdf",))

_MIB = 1024 * 1024

# The bounds below were compared with what providers publish on 2026-11-24.
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


def _patched(factor: float) -> Bound:
    return _of_images(ceil(1_536 * factor) + 16)


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


def media_rules(model: str) -> MediaRules:
    """Return what a model takes by its name. `UNKNOWN` for one that no table has."""
    prefix = longest_prefix(published_name(model), _RULES)
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
