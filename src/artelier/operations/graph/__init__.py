"""The operations of a turn: their plan, their order, and what they change."""
