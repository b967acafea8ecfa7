"""The model gateway: the one thing an agent can reach, and the only holder of the endpoint's credential.

Runs on Debian bookworm's Python 3.11 with h11 and certifi. Nothing of benchsite is imported here.
"""
