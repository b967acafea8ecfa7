"""System checks of a production site: what `manage.py check --deploy` says besides Django's own.

Each rule looks at the settings alone: no database, queue or engine is asked. An `E` is never right on a site that
others reach; a `W` may be a decision, and can be silenced in `SILENCED_SYSTEM_CHECKS`.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.files.storage.handler import StorageHandler

from benchsite.lib import environ

KEY_LENGTH, KEY_CHARACTERS = 50, 10  # Django's own bounds of a key
SECRETS = (
    "BENCHSITE_SECRET_KEY", "BENCHSITE_METRICS_TOKEN", "DATABASE_URL", "REDIS_URL", "BENCHSITE_WORKER_KEY",
    "BENCHSITE_SITE_KEY",
)  # fmt: skip
_GROUP_OR_OTHERS, _OTHERS = 0o077, 0o007
_LOOPBACK = {"", "localhost", "127.0.0.1", "::1", "[::1]"}


@dataclass(frozen=True, slots=True)
class Rule:
    """`fires` looks at the settings; `sentence` says what is wrong and `hint` what to do."""

    id: str
    sentence: str
    hint: str
    fires: Callable[[Any], bool]

    def message(self) -> CheckMessage:
        kind = Error if self.id.startswith("E") else Warning
        return kind(self.sentence, hint=self.hint, id=f"benchsite.{self.id}")


def is_weak(key: str) -> bool:
    return len(key) < KEY_LENGTH or len(set(key)) < KEY_CHARACTERS


def has_insecure_cookie(site: Any) -> bool:
    return not (site.SESSION_COOKIE_SECURE and site.CSRF_COOKIE_SECURE and site.SESSION_COOKIE_HTTPONLY)


def has_plain_http(site: Any) -> bool:
    plain = any(origin.startswith("http://") for origin in site.CSRF_TRUSTED_ORIGINS)
    return plain or not (site.SECURE_SSL_REDIRECT and site.SECURE_HSTS_SECONDS)


def is_open(path: Path, bits: int) -> bool:
    """Whether a file or folder that is there has one of these permission bits."""
    try:
        return bool(path.stat().st_mode & bits)
    except OSError:
        return False


def has_open_evidence(site: Any) -> bool:
    # Where evidence lies when it lies in files.
    storage = site.STORAGES["default"]
    folder = Path(storage["OPTIONS"]["location"]) if storage["BACKEND"] == environ.FILES else None
    inside = folder is not None and folder.is_relative_to(site.DATA)  # then the data folder itself keeps it closed
    return folder is not None and not inside and is_open(folder, _OTHERS)


def has_no_storage(site: Any) -> bool:
    """Whether the backend or one of its options is not known, or its package is not installed."""
    try:
        StorageHandler({"default": site.STORAGES["default"]})["default"]
    except Exception:  # a backend may refuse its options with anything
        return True
    return False


def has_open_secret(site: Any) -> bool:
    named = [os.environ.get(f"{name}_FILE") for name in SECRETS]
    own = (Path(site.DATA, "secret-key"), *Path(site.DATA, "keys").glob("*.pem"))
    return any(is_open(path, _OTHERS) for path in (*own, *map(Path, filter(None, named))))


def is_sqlite(site: Any) -> bool:
    return "sqlite" in str(site.DATABASES["default"]["ENGINE"])


def has_unprotected_database(site: Any) -> bool:
    database = site.DATABASES["default"]
    host = str(database.get("HOST", ""))
    near = host in _LOOPBACK or host.startswith("/")
    mode = database.get("OPTIONS", {}).get("sslmode", "prefer")
    return not is_sqlite(site) and not near and mode not in {"require", "verify-ca", "verify-full"}


def has_unprotected_queue(site: Any) -> bool:
    url = urlsplit(site.REDIS_URL)
    return url.scheme in {"redis", "rediss"} and (url.hostname or "") not in _LOOPBACK and not url.password


def has_weak_token(site: Any) -> bool:
    token = site.METRICS_TOKEN
    return bool(token) and (len(set(token)) < KEY_CHARACTERS or token == site.SECRET_KEY)


def has_no_static_files(site: Any) -> bool:
    return site.PRODUCTION and not Path(site.STATIC_ROOT, "staticfiles.json").is_file()


RULES = (
    Rule(
        "E001",
        "Debug pages are on: they show settings and source to whoever makes an error.",
        "Set BENCHSITE_DEBUG=0, or leave it out.",
        lambda site: bool(site.DEBUG),
    ),
    Rule(
        "E002",
        "This is not set up as a production site: no HTTPS, no secure cookies, and a link can sign in.",
        "Set BENCHSITE_PRODUCTION=1.",
        lambda site: not site.PRODUCTION,
    ),
    Rule(
        "E003",
        f"The secret key is shorter than {KEY_LENGTH} characters or of too few different ones; sessions can be forged.",
        "Put 50 or more random characters into a file that BENCHSITE_SECRET_KEY_FILE names.",
        lambda site: is_weak(site.SECRET_KEY),
    ),
    Rule(
        "E004",
        "The site answers to any host name, so links that it makes can lead to another's.",
        "Name the site's own names in BENCHSITE_HOSTS.",
        lambda site: "*" in site.ALLOWED_HOSTS,
    ),
    Rule(
        "W005",
        "The site answers only to names of this machine.",
        "Name the site's public name in BENCHSITE_HOSTS.",
        lambda site: {host.casefold() for host in site.ALLOWED_HOSTS} <= _LOOPBACK,
    ),
    Rule(
        "W006",
        "The database is SQLite: one host only, no triggers against deletion, and a power cut may lose the end.",
        "Set DATABASE_URL to a PostgreSQL database.",
        is_sqlite,
    ),
    Rule(
        "W007",
        "The queue is the embedded server: workers on other hosts cannot reach it.",
        "Set REDIS_URL.",
        lambda site: not site.REDIS_URL,
    ),
    Rule(
        "E008",
        "A session or form cookie may travel over plain HTTP or be read by a script.",
        "Set BENCHSITE_PRODUCTION=1 and change nothing of SESSION_COOKIE_… and CSRF_COOKIE_SECURE.",
        has_insecure_cookie,
    ),
    Rule(
        "E009",
        "The site can be used over plain HTTP.",
        "Set BENCHSITE_PRODUCTION=1, put TLS in front, and name only https:// in BENCHSITE_TRUSTED_ORIGINS.",
        has_plain_http,
    ),
    Rule(
        "E010",
        "The data folder can be read by other accounts of this machine: it holds evidence, secrets and journals.",
        "Give it to the site's own account and close it: chmod 700.",
        lambda site: is_open(Path(site.DATA), _GROUP_OR_OTHERS),
    ),
    Rule(
        "E011",
        "The evidence folder outside the data folder can be read by every account of this machine.",
        "Give it to the site's group and close it to others: chmod 2750.",
        has_open_evidence,
    ),
    Rule(
        "E012",
        "A file that holds a secret can be read by every account of this machine.",
        "Close it: chmod 600, or 640 with a group of its own.",
        has_open_secret,
    ),
    Rule(
        "W013",
        "The database is on another host, and the connection may be neither encrypted nor the right one.",
        "Add ?sslmode=verify-full&sslrootcert=FILE to DATABASE_URL.",
        has_unprotected_database,
    ),
    Rule(
        "W014",
        "The queue is on another host and asks for no password: whoever reaches it can run any job on a worker.",
        "Give Redis a password, put it into REDIS_URL_FILE, and use rediss:// or a private network.",
        has_unprotected_queue,
    ),
    Rule(
        "W015",
        "A reviewer may approve a bundle that they imported themselves.",
        "Set BENCHSITE_SELF_REVIEW=0 once there are two reviewers.",
        lambda site: bool(site.SELF_REVIEW),
    ),
    Rule(
        "W016",
        "No proxy is trusted: behind one, all failed sign-ins count for one address and keep everybody out.",
        "Set BENCHSITE_TRUSTED_PROXIES to the number of proxies in front.",
        lambda site: not site.TRUSTED_PROXIES,
    ),
    Rule(
        "E017",
        "The static files were not collected, so every page fails.",
        "Run manage.py collectstatic --no-input after each installation.",
        has_no_static_files,
    ),
    Rule(
        "W018",
        "The token for /metrics is easily guessed, or is the secret key itself.",
        "Put 32 random characters into a file that BENCHSITE_METRICS_TOKEN_FILE names, or set none.",
        has_weak_token,
    ),
    Rule(
        "E019",
        "The evidence storage cannot be used: its backend, one of its options or a package that it needs is unknown.",
        "Correct BENCHSITE_EVIDENCE_STORAGE and BENCHSITE_EVIDENCE_OPTIONS; install what the backend needs.",
        has_no_storage,
    ),
)


@register(Tags.security, deploy=True)
def production_checks(**_: Any) -> list[CheckMessage]:
    """Every rule that fires, in the order of their numbers."""
    return list(firing(settings))


def firing(site: Any) -> Iterator[CheckMessage]:
    """What is wrong with these settings, one message a rule."""
    for rule in RULES:
        if rule.fires(site):
            yield rule.message()
