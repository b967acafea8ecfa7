"""The tools that a site offers over the Model Context Protocol: the same functions as pages and commands."""
