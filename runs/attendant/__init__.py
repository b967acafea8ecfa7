"""The attendant of one trial: owns the journal, the engine and the record, and trusts nothing of its sandbox."""
