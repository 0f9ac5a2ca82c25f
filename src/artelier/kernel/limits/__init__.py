"""Limits: budgets, rates, quotas, and the queue for a provider."""
