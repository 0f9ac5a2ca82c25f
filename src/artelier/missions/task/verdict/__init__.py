"""Verdicts on outputs: by rule, by a model, by people."""
