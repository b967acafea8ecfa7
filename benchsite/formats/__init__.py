"""Formats of the times that Django writes by itself, as in the admin: the same as everywhere else on the site."""
