"""Verifies what benchsite signed; most of its modules are copied from the product when the package is built."""
