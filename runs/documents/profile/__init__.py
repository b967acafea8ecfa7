"""Benchmark profiles, one module for each schema version."""
