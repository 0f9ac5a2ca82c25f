"""The tokens of texts, the token limits of models, and the prices of tokens."""

from artelier.tokens.estimate import TextMeter, estimate_tokens, tokens_of_counts, upper_bound_tokens
from artelier.tokens.model_info import (
    ModelPrices,
    PartialWindow,
    TieredPrice,
    Window,
    Windows,
    canonical_name,
    cost_microusd,
    upper_bound_microusd,
)

__all__ = [
    "ModelPrices",
    "PartialWindow",
    "TextMeter",
    "TieredPrice",
    "Window",
    "Windows",
    "canonical_name",
    "cost_microusd",
    "estimate_tokens",
    "tokens_of_counts",
    "upper_bound_microusd",
    "upper_bound_tokens",
]
