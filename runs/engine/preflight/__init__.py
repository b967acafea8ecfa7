"""The checks of a worker before anything starts."""
