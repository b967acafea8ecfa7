"""A run's networks: the gateway, its ledger, and the probes of egress and endpoint."""
