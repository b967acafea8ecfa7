"""One action each. The first line of every view asks ``runs.services.access``."""
