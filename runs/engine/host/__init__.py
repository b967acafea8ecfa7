"""What a worker has on its own host: run folders, credentials, the engine it knows, the maintenance journal."""
