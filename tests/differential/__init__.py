"""Differential test: the same configurations judged by MaxText and by moectl."""
