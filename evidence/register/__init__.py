"""The register of evidence: storing, ingesting, reading again, retaining, exporting, auditing."""
