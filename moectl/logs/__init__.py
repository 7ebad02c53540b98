"""Logs of a training run: what a line says, how far a run is, and what ended it."""
