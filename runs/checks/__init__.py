"""Checks of previews, preflights and connection tests: pure conditions with a code and a remedy."""
