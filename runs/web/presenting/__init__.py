"""Finished values of pages from rows of the database; templates decide nothing."""
