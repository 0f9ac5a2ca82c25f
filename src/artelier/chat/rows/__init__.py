"""Rows of chats, read and written inside the transactions of the view."""
