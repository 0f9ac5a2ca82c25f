"""The decision to compact a long conversation, and the choice of messages a summary may replace. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

from artelier.errors import InvalidRequest
from artelier.ports.model import ChatMessage

DEFAULT_SUMMARY_TOKENS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionStrategy:
    """The settings of compaction: what triggers it, what it keeps, and who writes the summary."""

    trigger_at_messages: int | None = 40
    """Messages of a whole prompt; None: no such trigger."""
    trigger_at_fraction: float | None = 0.8
    """Of the model's window, by estimated tokens of the whole prompt, tools included; None: when full."""
    summarize_with_model: str | None = None
    """None: the run's own model. Empty: no model, a deterministic extract."""
    keep_recent_messages: int = 10
    """Stay verbatim; a call and its results are never parted, so it may be some more."""
    summary_tokens_max: int = DEFAULT_SUMMARY_TOKENS

    def __post_init__(self) -> None:
        """Errors: `InvalidRequest` for a strategy that could never make room."""
        _check_count("keep_recent_messages", self.keep_recent_messages, low=1)
        _check_count("summary_tokens_max", self.summary_tokens_max, low=50)
        if self.trigger_at_messages is not None:
            low = self.keep_recent_messages + 2
            _check_count("trigger_at_messages", self.trigger_at_messages, low=low)
        fraction = cast(object, self.trigger_at_fraction)
        is_number = isinstance(fraction, int | float) and not isinstance(fraction, bool)
        if fraction is not None and not (is_number and 0.05 <= cast(float, fraction) <= 1):
            raise InvalidRequest(
                "trigger_at_fraction", expected="a number from 0.05 to 1, or None", got=fraction
            )

    def settings(self) -> dict[str, Any]:
        """JSON data from which `restored` makes the same strategy."""
        settings = asdict(self)
        fraction = settings.pop("trigger_at_fraction")
        # Stored numbers are whole: millionths.
        settings["trigger_at_ppm"] = None if fraction is None else round(fraction * 1_000_000)
        return settings

    @classmethod
    def restored(cls, settings: Mapping[str, Any]) -> CompactionStrategy:
        """Errors: `InvalidRequest` for settings that are no strategy's."""
        fields = dict(settings)
        ppm = fields.pop("trigger_at_ppm", None)
        try:
            if ppm is not None:
                fields["trigger_at_fraction"] = ppm / 1_000_000
            elif "trigger_at_ppm" in settings:
                fields["trigger_at_fraction"] = None
            return cls(**fields)
        except TypeError as error:
            raise InvalidRequest(f"not a compaction strategy: {error}") from None

    def wanted(self, *, messages: int, tokens: int, window_tokens: int) -> str:
        """Return why a prompt of this size wants a compaction (`messages` or `fraction`); empty if it does
        not.
        """
        if self.trigger_at_messages is not None and messages >= self.trigger_at_messages:
            return "messages"
        fraction = self.trigger_at_fraction
        if fraction is not None and tokens >= int(window_tokens * fraction):
            return "fraction"
        return ""


def _check_count(name: str, value: object, *, low: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < low:
        raise InvalidRequest(name, expected=f"a whole number from {low}", got=repr(value)[:80])


def kept_from(messages: Sequence[ChatMessage], sizes: Sequence[int], *, keep: int, room_tokens: int) -> int:
    """Index of the first message that stays verbatim; 0 if nothing can be summarised.

    At least `keep` messages stay if they fit into `room_tokens`, else as many exchanges as fit, and always
    the last one. No tool result is parted from its call.
    """
    starts = [index for index, message in enumerate(messages) if message.role != "tool"]
    if not starts:
        return 0
    wanted = max(0, len(messages) - keep)
    first = max((start for start in starts if start <= wanted), default=starts[0])
    left = sum(sizes[first:])
    for start in starts:
        if start < first:
            continue
        left -= sum(sizes[first:start])
        first = start
        if left <= room_tokens:
            break
    return first
