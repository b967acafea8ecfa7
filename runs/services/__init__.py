"""The acts of the product on its rows: who may do what, and what it changes."""
