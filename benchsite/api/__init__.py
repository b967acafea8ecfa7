"""The HTTP API at `/api/v1`: what pages and commands do, for programs that show a token."""
