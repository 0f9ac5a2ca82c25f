"""Strict doubles of providers: each refuses what the real API refuses, and bills as it does."""

from artelier.testing.providers.anthropic import StrictAnthropic
from artelier.testing.providers.billing import Bill, PromptCache, Refusal

__all__ = ["Bill", "PromptCache", "Refusal", "StrictAnthropic"]
