"""The public door of a chat, and what it answers."""
