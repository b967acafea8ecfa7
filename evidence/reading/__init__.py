"""Strict readers of the files that a run leaves."""
