"""Estimates beside what real MaxText says of the same runs, point by point."""
