"""Agents of other libraries as durable runs. Each library has a package, which alone imports it."""
