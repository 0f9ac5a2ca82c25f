"""Chats, their turns and their profiles."""
