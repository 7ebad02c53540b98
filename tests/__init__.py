"""Tests of moectl."""
