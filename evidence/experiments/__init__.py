"""Experiments: the trials of one candidate on one dataset, wherever they ran."""
