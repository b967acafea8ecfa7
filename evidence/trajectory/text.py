"""Text that an agent made, safe to show: nothing unseen, no half characters, bounded length."""

import json
import re
from dataclasses import dataclass
from typing import Any

from benchsite.lib.visible_text import visible

MAX_SHOWN = 20_000
# Colours and moves of the cursor, which hold no words; a title or a link of a terminal does, and is shown.
_COLOURS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


@dataclass(frozen=True, slots=True)
class Text:
    """Text of an agent; `text` is safe and of at most about MAX_SHOWN characters, `size` the whole's length.

    What is shown is made only when it is asked for: an index looks at every step and shows none.
    """

    whole: str

    @property
    def text(self) -> str:
        whole = self.whole
        if self.cut:
            whole = f"{whole[: MAX_SHOWN // 2]}\n[…]\n{whole[-MAX_SHOWN // 2 :]}"
        return safe(whole)

    @property
    def size(self) -> int:
        return len(self.whole)

    @property
    def cut(self) -> bool:
        return self.size > MAX_SHOWN


def shown(value: Any) -> Text:
    """Any JSON value as text: a string as it is, the parts of a content list one per line, else as JSON."""
    return Text(plain(value))


def safe(text: str) -> str:
    """Without a terminal's colours; every other character that is not seen is a visible mark."""
    return visible(_COLOURS.sub("", text.replace("\r\n", "\n")))


def plain(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(_part(part) for part in value)
    return json.dumps(value, ensure_ascii=False, default=str)


def _part(part: Any) -> str:
    """One part of a multimodal content; an image is named, never loaded."""
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        return str(part["text"])
    if isinstance(part, dict) and part.get("type") in ("image", "image_url"):
        return "[image]"
    return plain(part)
