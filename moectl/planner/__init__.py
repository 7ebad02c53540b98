"""Searches the legal meshes for the fastest one that fits."""
