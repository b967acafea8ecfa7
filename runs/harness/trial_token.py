"""Where is the trial's bearer token? Only here, in the memory of the trial's one process (design 3.4)."""

_token: list[str] = []


def deposit(token: str) -> None:
    """Keep the token that came on standard input; replaces an earlier one."""
    _token[:] = [token]


def token() -> str | None:
    return _token[0] if _token else None


def in_place_of(placeholder: str, env: dict[str, str]) -> dict[str, str]:
    """`env` with the token wherever a value is exactly the placeholder; unchanged while there is no token."""
    if not placeholder or not _token:
        return env
    return {name: _token[0] if value == placeholder else value for name, value in env.items()}
