"""Real runs against the scripted endpoint, through the real queue, that prove a whole installation.

A scripted smoke proves the adapter, never a model.
"""
