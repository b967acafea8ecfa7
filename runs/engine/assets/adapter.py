"""Our own files that run inside the harness environment, and what identifies them."""

import hashlib
from pathlib import Path

import runs
from benchsite.lib import strict_json
from benchsite.lib.canonical import canonical_sha256

SOURCE = Path(runs.__file__).resolve().parent
# What travels over the socket pair and the JSON reader are the same code on both sides; `runs` itself is an empty
# package there, and of `benchsite` it has the reader alone.
PACKAGES = ("runs", "benchsite")
_PATTERNS = ("wire/*.py", "harness/*.py")
_EMPTY = ("runs/__init__.py", "benchsite/__init__.py", "benchsite/lib/__init__.py")


def adapter_files() -> dict[str, Path]:
    """`runs/harness/environment.py` -> path, for every module that the environment gets under that name."""
    paths = sorted(path for pattern in _PATTERNS for path in SOURCE.glob(pattern))
    found = {f"runs/{path.relative_to(SOURCE).as_posix()}": path for path in paths}
    return {"benchsite/lib/strict_json.py": Path(strict_json.__file__), **found}


def adapter_hashes() -> dict[str, str]:
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in adapter_files().items()}


def adapter_sha256(hashes: dict[str, str]) -> str:
    """SHA-256 of the canonical JSON of name -> SHA-256."""
    return canonical_sha256(dict(hashes))


def install_adapter(site_packages: Path) -> None:
    """Write `PACKAGES` into `site_packages`; the caller has taken away what was there of them."""
    content = dict.fromkeys(_EMPTY, b"") | {name: path.read_bytes() for name, path in adapter_files().items()}
    for name, data in content.items():
        target = site_packages / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
