"""The pages of evidence."""
