"""Text from elsewhere escaped for a terminal, an XML report or Markdown. Pure.

Names of tasks, models, endpoints and people, and whatever an agent wrote, are shown and never interpreted.
"""

import re
import unicodedata

from benchsite.lib.visible_text import is_seen

MAX_TEXT = 300
CUT = " (cut)"
_PLAIN_ASCII = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 -_.,:;=+()%/")
# What would become a link although every character of it is harmless.
_LINK_STARTS = re.compile(r"//|(?i:www)\.|(?i:gh)-(?=\d)")


def escape_for_terminal(text: str) -> str:
    """Text for a terminal: control, direction and other invisible characters become visible escapes."""
    return "".join(map(_harmless, text, f" {text}"))


def _harmless(character: str, before: str) -> str:
    return character if is_seen(character, before) else _escaped(character)


def escape_for_report(text: str, *, limit: int = MAX_TEXT) -> str:
    """Text for a report that some program may render: one line of letters, digits and harmless signs.

    Whatever could be markup, a link, a mention or a reference becomes a visible escape such as ``\\x40``, so it is
    harmless even where a renderer forgets to escape. Longer text is cut, and says so. Never empty.
    """
    kept, cut = text[:limit], CUT if len(text) > limit else ""
    shown = "".join(character if _is_plain(character) else _escaped(character) for character in kept)
    return (_LINK_STARTS.sub(_broken, shown).strip() or "(nothing)") + cut


def _is_plain(character: str) -> bool:
    if character.isascii():
        return character in _PLAIN_ASCII
    return unicodedata.category(character)[0] in "LN" and is_seen(character, " ")


def _broken(found: re.Match[str]) -> str:
    """The link's start with its last sign escaped, so that no renderer links it by itself."""
    return found[0][:-1] + _escaped(found[0][-1])


def _escaped(character: str) -> str:
    point = ord(character)
    if point < 0x100:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"
