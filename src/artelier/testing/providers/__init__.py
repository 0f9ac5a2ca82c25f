"""Strict doubles of providers: each refuses what the real API refuses, and bills as it does."""

from artelier.testing.providers.anthropic import StrictAnthropic
from artelier.testing.providers.bills import CachedBlock, CallBill, PromptCache, Refusal, StrictProvider
from artelier.testing.providers.openai import StrictOpenAIChat, StrictOpenAIResponses

__all__ = [
    "CachedBlock",
    "CallBill",
    "PromptCache",
    "Refusal",
    "StrictAnthropic",
    "StrictOpenAIChat",
    "StrictOpenAIResponses",
    "StrictProvider",
]
