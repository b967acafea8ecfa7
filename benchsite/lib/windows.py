"""Windows of long lists: one after another, from row 1."""


def first_of_window(asked: str, *, size: int, rows: int) -> int:
    """The first row, from 1, of the window with row ``asked`` (as an address says it), of ``rows`` in all; the first
    window for what is no number, the last one for what lies beyond the end.
    """
    wanted = int(asked) if asked.isdecimal() and len(asked) < 9 else 1
    return (min(max(wanted, 1), max(rows, 1)) - 1) // size * size + 1
