"""One Harbor process for each trial."""
