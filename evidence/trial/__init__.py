"""One trial: its facts, its checks, and the one classifier."""
