"""Reading Harbor's own files, which are believed only against us."""
