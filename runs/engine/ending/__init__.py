"""How runs end: salvage, ingest, removal, verdict; and recovery of what a crash left."""
