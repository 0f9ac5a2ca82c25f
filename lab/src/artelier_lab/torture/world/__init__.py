"""Worlds under crashes and faults."""
