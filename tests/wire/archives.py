"""Makes tar archives byte by byte, also such as no honest tar would write."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

BLOCK = 512
END = bytes(2 * BLOCK)


@dataclass
class Member:
    """One member. `size` may lie about `data`; `kind` is the type flag."""

    name: bytes
    data: bytes = b""
    kind: bytes = b"0"
    size: int | None = None
    magic: bytes = b"ustar  \0"
    checksum: int | None = None
    modified: int = 1_700_000_000

    def blocks(self) -> bytes:
        size = len(self.data) if self.size is None else self.size
        block = bytearray(BLOCK)
        block[: len(self.name)] = self.name[:100]
        block[100:108] = b"0000644\0"
        block[124:136] = number(size)
        block[136:148] = number(self.modified)
        if self.modified < 0:
            block[136] = 0xFF
        block[148:156] = b" " * 8
        block[156:157] = self.kind
        block[257:265] = self.magic
        total = sum(block) if self.checksum is None else self.checksum
        block[148:156] = b"%06o\0 " % total
        return bytes(block) + self.data + bytes(-len(self.data) % BLOCK)


def number(value: int) -> bytes:
    if 0 <= value < 8**11:
        return b"%011o\0" % value
    return b"\x80" + value.to_bytes(11, "big", signed=value < 0)


def archive(*members: Member, end: bytes = END) -> bytes:
    return b"".join(member.blocks() for member in members) + end


def long_named(name: bytes, data: bytes = b"") -> list[Member]:
    return [Member(b"././@LongLink", name + b"\0", kind=b"L"), Member(name[:100], data)]


def chunks(data: bytes, size: int = 700) -> Iterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


@dataclass
class Memory:
    """A place that keeps everything in memory."""

    files: dict[str, bytes] = field(default_factory=dict)
    directories: list[str] = field(default_factory=list)

    def directory(self, path: str) -> None:
        self.directories.append(path)

    def file(self, path: str, pieces: Iterable[bytes]) -> None:
        self.files[path] = b"".join(pieces)
