"""The faces of evidence. The first line of every view asks ``runs.access``."""
