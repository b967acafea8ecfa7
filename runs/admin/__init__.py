"""The admin of staff: rows to look at, acts through the same functions as pages."""

from runs.admin import bundles, people, runs, tokens, workers

__all__ = ["bundles", "people", "runs", "tokens", "workers"]
