"""Failures of the database itself, told from defects: such a failure has a code and a remedy."""

from django.db import DatabaseError, DataError, IntegrityError, InterfaceError, NotSupportedError

CODE = "database.unusable"
_DEFECTS = (DataError, IntegrityError, NotSupportedError)  # the database works, and refuses what it was asked
_DAMAGED = ("not a database", "malformed", "corrupt", "invalid page")
_SENTENCES = {
    "damaged": "The database is damaged, or is none. Restore it from a backup; classify reads a run's folder without.",
    "in use": "Another process holds the database for longer than this one waits. Let that end, then try again.",
    "": "The database cannot be used. Is it running, is its disk full, and did you run manage.py migrate?",
}


def database_trouble(error: BaseException) -> str:
    """One sentence with its remedy when the database cannot be used; empty for every other failure."""
    if not isinstance(error, DatabaseError | InterfaceError) or isinstance(error, _DEFECTS):
        return ""
    reason = " ".join(str(error).split())  # a server's message has several lines
    said = reason.casefold()
    state = "damaged" if any(word in said for word in _DAMAGED) else "in use" if "locked" in said else ""
    return f"{_SENTENCES[state]} ({reason})"
