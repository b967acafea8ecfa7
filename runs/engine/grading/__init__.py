"""Grading in containers without an agent: certification of bundles and replay of kept artifacts."""
