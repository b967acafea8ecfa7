"""Text from elsewhere with a visible mark for every character that nothing is seen of."""

import re
import unicodedata

# Printable by their category, and yet nothing is seen of them: joiners, fillers, selectors of variants, a blank of
# braille. All else that Unicode calls default-ignorable is not printable.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_NOT_PLAIN = re.compile("[^\n\t -~]")  # long texts are mostly plain, and only the rest is looked at one by one


def visible(text: str) -> str:
    """Untrusted text as it may stand on a page: control, direction and unseen characters become visible marks.

    Escape sequences, NUL and bidirectional overrides could otherwise hide or reorder what is read, and tag characters
    and selectors carry words that only a model reads. Line feeds, tabs and blanks stay.
    """
    return _NOT_PLAIN.sub(_mark, text)


def is_seen(character: str, before: str) -> bool:
    """Whether something is seen of a character. A selector right after a symbol is seen: it makes an emoji."""
    if not character.isprintable():
        return False
    if not _BLANK.match(character):
        return True
    return character in "\ufe0e\ufe0f" and unicodedata.category(before)[0] == "S" and before != "\u2800"


def _mark(found: re.Match[str]) -> str:
    character, text = found[0], found.string
    before = text[found.start() - 1] if found.start() else " "
    point = ord(character)
    if is_seen(character, before) or unicodedata.category(character) == "Zs":
        return character
    if point < 32:
        return chr(0x2400 + point)
    if point == 127:
        return "␡"
    return "�" if 0xD800 <= point <= 0xDFFF else f"⟨U+{point:04X}⟩"
