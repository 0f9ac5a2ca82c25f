"""Steering: where the puck stands, hard limits, and what follows from them."""
