"""Schedules under crashes."""
