"""Figures, pictures, tables and sweeps of worlds."""
