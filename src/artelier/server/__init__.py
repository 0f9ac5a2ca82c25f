"""Faces for other programs: they translate, and hold no truth that the log lacks."""
