"""A worker's own host: run folders, credentials, the engine it knows, the maintenance journal."""
