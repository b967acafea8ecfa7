"""Does the whole product do what it promises here? Real runs against the scripted endpoint, through the real queue.

A scripted smoke proves the adapter, never a model.
"""
