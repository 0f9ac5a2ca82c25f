"""Chats and their profiles."""
