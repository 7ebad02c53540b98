"""Launching: run records, and the backends that run what a bundle says."""
