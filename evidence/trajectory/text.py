"""How is text that an agent made shown safely? Control characters visible, no half characters, bounded length."""

import json
import re
from dataclasses import dataclass
from typing import Any

MAX_SHOWN = 20_000
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_UNSAFE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


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
    """Without terminal sequences; other control characters become visible symbols, lone surrogates U+FFFD."""
    return _UNSAFE.sub(_visible, _ANSI.sub("", text.replace("\r\n", "\n")))


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


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"
