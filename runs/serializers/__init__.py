"""Documents about runs as JSON: one function for each schema of ``runs/schemas`` that commands and MCP tools return."""
