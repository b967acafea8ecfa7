"""Which of our own files run inside the harness environment, and what identifies them?"""

import hashlib
from pathlib import Path

import runs
from benchsite.lib.canonical import canonical_sha256

SOURCE = Path(runs.__file__).resolve().parent
# Journal and containers are the same code on both sides; `runs` itself becomes an empty package there.
_PATTERNS = ("ownership/*.py", "containers/*.py", "harness/*.py")


def adapter_files(source: Path = SOURCE) -> dict[str, Path]:
    """`harness/environment.py` -> path, for every module that the environment gets as `runs.…`."""
    paths = (path for pattern in _PATTERNS for path in source.glob(pattern))
    return {path.relative_to(source).as_posix(): path for path in sorted(paths)}


def adapter_hashes(source: Path = SOURCE) -> dict[str, str]:
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in adapter_files(source).items()}


def adapter_sha256(hashes: dict[str, str]) -> str:
    """SHA-256 of the canonical JSON of name -> SHA-256."""
    return canonical_sha256(dict(hashes))


def install_adapter(package: Path, source: Path = SOURCE) -> None:
    """Write the modules into `package` (`site-packages/runs`), which is replaced as a whole by the caller."""
    package.mkdir()
    (package / "__init__.py").write_bytes(b"")
    for name, path in adapter_files(source).items():
        target = package / name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(path.read_bytes())
