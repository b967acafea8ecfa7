"""One run: its facts, its verdict, and the documents that are published."""
