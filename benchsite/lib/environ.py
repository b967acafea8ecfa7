"""Typed readers of the environment variables that configure the process; they fail loudly.

Every name may instead be given as ``NAME_FILE``, the path of a file that holds the value, so that
secrets need not stand in the environment. Giving both is refused.
"""

import ipaddress
import json
import os
import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

FILES = "django.core.files.storage.FileSystemStorage"
# What a PostgreSQL URL may add: where a socket lies, and how the server is believed.
POSTGRESQL_OPTIONS = frozenset({"host", "sslmode", "sslrootcert", "sslcert", "sslkey", "connect_timeout"})
PREFIX = "BENCHSITE_"
# Settings that are read by a command, a script or a run, not by the settings module.
READ_LATER = (
    "BENCHSITE_SCRIPTED_KEY", "BENCHSITE_DEBIAN_MIRROR", "BENCHSITE_PORT", "BENCHSITE_OWNER",
    "BENCHSITE_WORKER_KEY", "BENCHSITE_SITE_KEY",
)  # fmt: skip
# A credential that an endpoint's record names may stand in a variable of these (runs.documents.endpoints).
CREDENTIALS = ("BENCHSITE_ENDPOINT_", "BENCHSITE_SCRIPTED_")
_read: set[str] = set()


def text(name: str, default: str | None = None) -> str:
    """The value of ``name``, or of the file that ``<name>_FILE`` names; ``default`` when neither is set."""
    _read.add(name)
    value, path = os.environ.get(name), os.environ.get(f"{name}_FILE")
    if value is not None and path is not None:
        raise ImproperlyConfigured(f"{name} and {name}_FILE are both set; keep one of them.")
    if path is not None:
        try:
            value = Path(path).read_text(encoding="utf-8").rstrip("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise ImproperlyConfigured(f"{name}_FILE names {path}, which cannot be read: {error}") from error
    if value is None:
        value = default
    if value is None:
        raise ImproperlyConfigured(f"{name} is not set; set it, or {name}_FILE to a file that holds it.")
    return value


def refuse_misspelt() -> None:
    """Raise for a variable that is called nearly as a setting, which would silently do nothing.

    To be called once all settings were read. Names unlike any setting's are left alone, and those of credentials.
    """
    known = {name.removeprefix(PREFIX): name for name in (*_read, *READ_LATER)}
    for variable in sorted(os.environ):
        name = variable.removesuffix("_FILE")
        if not variable.startswith(PREFIX) or variable.startswith(CREDENTIALS) or name in known.values():
            continue
        if near := get_close_matches(name.removeprefix(PREFIX), known, n=1, cutoff=0.85):
            raise ImproperlyConfigured(
                f"There is no setting {variable}. Did you mean {known[near[0]]}? Rename the variable, or remove it."
            )


def host_name(name: str, default: str) -> str:
    """A worker's name: it stands in folders, labels and the queue's name."""
    value = text(name, default)
    if problem := name_problem(value):
        raise ImproperlyConfigured(f"{name} is {value!r}; {problem}.")
    return value


def name_problem(value: str) -> str:
    """Why ``value`` is no worker's name; empty when it is one."""
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", value):
        return ""
    return "a worker's name has 1 to 64 letters, digits, dots, dashes or underscores and begins with a letter or digit"


def flag(name: str, default: bool) -> bool:
    """A boolean written as 1, true, yes, on or 0, false, no, off."""
    value = text(name, "1" if default else "0").strip().lower()
    if value in {"1", "true", "yes", "on"}:
        return True
    if value in {"0", "false", "no", "off"}:
        return False
    raise ImproperlyConfigured(f"{name} is {value!r}; write 1 or 0.")


def integer(name: str, default: int, *, minimum: int, maximum: int) -> int:
    """A whole number between ``minimum`` and ``maximum``, both included."""
    value = text(name, str(default))
    try:
        number = int(value)
    except ValueError:
        raise ImproperlyConfigured(f"{name} is {value!r}; write a whole number.") from None
    if not minimum <= number <= maximum:
        raise ImproperlyConfigured(f"{name} is {number}; it must lie between {minimum} and {maximum}.")
    return number


def user_ids(name: str, default: str) -> range:
    """`first-last`, ids of the kernel's users: 4,096 at most, and none of the system's."""
    value = text(name, default)
    found = re.fullmatch(r"([0-9]{4,10})-([0-9]{4,10})", value.strip())
    ids = range(int(found[1]), int(found[2]) + 1) if found else range(0)
    if not 1 <= len(ids) <= 4_096 or ids[0] < 1_000 or ids[-1] > 2**31:
        raise ImproperlyConfigured(
            f"{name} is {value!r}; write the first and the last of at most 4096 user ids from 1000 on, like {default}."
        )
    return ids


def choice[T: str](name: str, default: T, known: Sequence[T]) -> T:
    """One of the `known` words."""
    value = text(name, default).strip()
    for word in known:
        if value.casefold() == word.casefold():
            return word
    raise ImproperlyConfigured(f"{name} is {value!r}; write one of {', '.join(known)}.")


def names(name: str, default: str = "") -> list[str]:
    """A comma-separated list without blanks."""
    return [part.strip() for part in text(name, default).split(",") if part.strip()]


def networks(name: str, *, words: Sequence[str] = ()) -> tuple[str, ...] | None:
    """A comma-separated list of networks as 203.0.113.0/24 or single addresses, and of `words`; None when not set."""
    found = names(name)
    for part in found:
        if part in words:
            continue
        try:
            ipaddress.ip_network(part)
        except ValueError:
            also = f" or {', '.join(words)}" if words else ""
            sentence = f"{name} holds {part!r}; write networks such as 203.0.113.0/24 or 2001:db8::/32{also}."
            raise ImproperlyConfigured(sentence) from None
    return tuple(found) or None


def folder(name: str, default: Path) -> Path:
    """An absolute folder; it need not exist yet."""
    return Path(text(name, str(default))).expanduser().absolute()


def database(name: str, *, sqlite: Path) -> dict[str, object]:
    """Django's database settings from a ``postgresql://`` URL; SQLite with WAL when the name is not set."""
    url = text(name, "")
    if not url:
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": sqlite,
            "TEST": {"NAME": sqlite.with_name("test.sqlite3")},  # a file, so that threads meet the real locks
            "OPTIONS": {
                "transaction_mode": "IMMEDIATE",
                "timeout": 20,
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;",
            },
        }
    like = "postgresql://user:password@host:5432/database"
    parts = _url(name, url, schemes={"postgres", "postgresql"}, like=like)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    # A password with a slash or a question mark that was not encoded ends there, and is not to be repeated.
    if not re.fullmatch(r"/[^/@]+", parts.path) or "@" in parts.query:
        raise ImproperlyConfigured(f"{name} must look like {like}; encode / ? # @ in a password as %2F %3F %23 %40.")
    if unknown := sorted(options.keys() - POSTGRESQL_OPTIONS):
        known = ", ".join(sorted(POSTGRESQL_OPTIONS))
        raise ImproperlyConfigured(f"{name} has the unknown option {unknown[0]}; known are {known}.")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": options.pop("host", parts.hostname or ""),
        "PORT": str(parts.port or ""),
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": options,
    }


def queue(name: str, *, socket: Path) -> str:
    """Where Redis answers: a URL, or the embedded server's `socket` when the name is not set."""
    url = text(name, "")
    if url:
        _url(name, url, schemes={"redis", "rediss", "unix"}, like="redis://:password@host:6379/0")
    return url or f"unix://{socket}?db=0"


def storage(backend_name: str, options_name: str, *, folder: Path) -> dict[str, object]:
    """Django's settings of a storage: a backend's dotted name, and its options as a JSON object.

    Without a backend it is `folder`, or the options' `location`, for this account only.
    """
    backend, given = text(backend_name, FILES), text(options_name, "{}")
    try:
        options = json.loads(given)
    except ValueError:
        options = None
    if not isinstance(options, dict):
        raise ImproperlyConfigured(f"{options_name} is no JSON object; write one such as {{}}.")
    if backend == FILES:
        options = {
            "location": str(folder),
            "file_permissions_mode": 0o600,
            "directory_permissions_mode": 0o700,
        } | options
    return {"BACKEND": backend, "OPTIONS": options}


def _url(name: str, url: str, *, schemes: set[str], like: str) -> SplitResult:
    """The URL's parts. The refusal does not repeat it: it may hold a password."""
    try:
        parts = urlsplit(url)
        well_formed = parts.scheme in schemes and (parts.port is None or parts.port > 0)
    except ValueError:
        well_formed = False
    if not well_formed:
        raise ImproperlyConfigured(f"{name} must look like {like}.")
    return parts
