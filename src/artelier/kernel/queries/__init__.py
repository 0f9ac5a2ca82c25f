"""Reads of the kernel's tables; the only place outside its views that knows their columns."""
