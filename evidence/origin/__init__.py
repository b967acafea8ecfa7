"""Where evidence comes from: signed statements over a run, the keys that sign them, and verifying both. Pure.

The client package (`client/`) holds copies of these modules, so they need only the standard library and cryptography.
"""
