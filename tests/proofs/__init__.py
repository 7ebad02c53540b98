"""Compiled peaks of native training steps, and the estimate beside them."""
