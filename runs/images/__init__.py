"""Recipes of the agent, verifier and gateway images; `recipes.py` reads and identifies them."""
