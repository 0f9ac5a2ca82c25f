"""Runs at work: their handle, their context, their one writer, and an honest end in every case."""
