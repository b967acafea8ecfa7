"""The end of runs: kept logs, ingest, removal, verdict; and recovery of what a crash left."""
