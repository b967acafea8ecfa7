"""Signing in: passwords, one-time links, throttling, and what a person's groups allow."""
