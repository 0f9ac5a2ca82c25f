"""The estimate of the tokens that a run's next prompt will be billed as, learned from the last prompts.

The numbers live in the loop's state, not in the process: a replay and a resume decide as the first run did.
"""

from __future__ import annotations

import msgspec

PPM = 1_000_000
RATIO_MIN, RATIO_MAX = PPM // 5, PPM * 5
"""Billed tokens per estimated one that can be true, in millionths."""

STEP_TOKENS_MIN = 40
"""A prompt that grew by less teaches nothing: rounding would drown it."""


class Estimator(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """The last prompt's estimate and bill, and what one more estimated token costs."""

    raw: int = 0
    """Estimate of the last prompt whose bill is known; 0 before the first reply."""
    billed: int = 0
    ratio: int = PPM
    """Billed tokens per estimated one, for text that was added."""
    steps: int = 0
    """Prompts that grew and so taught the ratio; counted up to two."""
    low_raw: int = 0
    """Estimate of the prompt after which they grew: the first, or the first after a compaction."""
    low_billed: int = 0
    """Its bill."""

    def tokens(self, raw: int) -> int:
        """Return what a prompt of `raw` estimated tokens will be billed as."""
        if not self.raw:
            return raw
        ratio = self._ratio_below if raw < self.raw else self.ratio
        told = self.billed + (raw - self.raw) * ratio // PPM
        # A prompt that shrank to little still costs something.
        return max(told, raw * RATIO_MIN // PPM)

    def raw_budget(self, tokens: int) -> int:
        """Return how many estimated tokens may be sent so that at most `tokens` are billed."""
        if not self.raw:
            return tokens
        ratio = self._ratio_below if tokens < self.billed else self.ratio
        return max(0, self.raw + (tokens - self.billed) * PPM // ratio)

    @property
    def _ratio_below(self) -> int:
        """The billed saving per token removed: old text goes, at the average cost of all text since then."""
        grown = self.raw - self.low_raw
        if not self.low_raw or grown < STEP_TOKENS_MIN:
            return self.ratio
        return min(max((self.billed - self.low_billed) * PPM // grown, RATIO_MIN), RATIO_MAX)

    def learned(self, *, raw: int, billed: int) -> Estimator:
        """After a reply: `raw` was the estimate, `billed` is the provider's count. Nonsense is ignored."""
        if raw <= 0 or not RATIO_MIN <= billed * PPM // raw <= RATIO_MAX:
            return self
        if not self.raw:
            # What a first bill is above the estimate is half framing, half text: a guess until it grows.
            ratio = (PPM + billed * PPM // raw) // 2
            return Estimator(raw=raw, billed=billed, ratio=ratio, low_raw=raw, low_billed=billed)
        told = msgspec.structs.replace(self, raw=raw, billed=billed)
        if raw < self.raw or not self.low_raw:
            return msgspec.structs.replace(told, low_raw=raw, low_billed=billed)
        ratio, steps = self.ratio, self.steps
        if raw - self.raw >= STEP_TOKENS_MIN:
            seen = (billed - self.billed) * PPM // (raw - self.raw)
            seen = min(max(seen, RATIO_MIN), RATIO_MAX)
            ratio = seen if steps == 0 else (ratio * 2 + seen) // 3
            steps = min(2, steps + 1)
        return msgspec.structs.replace(told, ratio=ratio, steps=steps)
