"""Readers of somebody's files: what each says, as settings with their places."""
