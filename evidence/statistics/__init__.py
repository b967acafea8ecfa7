"""What the trials of experiments amount to in numbers; pure. Nothing that is missing is counted as 0."""
