"""Missions under crashes."""
