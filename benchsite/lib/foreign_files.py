"""Files that desktop systems put beside those that a person copies, looks at or packs: no part of what was copied."""

_NAMES = frozenset(
    {
        ".ds_store", ".appledouble", ".spotlight-v100", ".trashes", ".fseventsd", ".temporaryitems", ".localized",
        "__macosx", "icon\r", "thumbs.db", "ehthumbs.db", "desktop.ini", "$recycle.bin", ".directory",
    }
)  # fmt: skip


def is_foreign(path: str) -> bool:
    """Whether a part of this path has a name that macOS, Windows or a desktop of Linux gives to files of its own."""
    return "/._" in f"/{path}" or not _NAMES.isdisjoint(path.casefold().split("/"))
