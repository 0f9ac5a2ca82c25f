"""Tenants and what each of them may use."""
