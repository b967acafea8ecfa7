"""How does Django write a time by itself, as in the admin? As everywhere else on the site."""
