"""Public keys as documents: what verifies a signature, of whom, and when that counts."""

import base64
import binascii
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from benchsite.lib.strict_json import JsonProblem, load_object
from evidence.origin.envelope import key_id_of

KEY_SCHEMA = "benchsite.public-key/v1"
LIST_SCHEMA = "benchsite.public-keys/v1"
MAX_BYTES = 1024 * 1024
MAX_KEYS = 1000
ROLES = ("worker", "site")
# Two clocks of honest machines may differ by this much.
CLOCK_SLACK = timedelta(minutes=5)
_FIELDS = {"schema", "key_id", "algorithm", "public_key", "role", "name", "not_before", "not_after", "retired_at",
           "revoked_at"}  # fmt: skip
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,6})?Z")


class KeyProblem(ValueError):
    """A file that is no public key of ours; `sentence` says why."""

    code = "key.unreadable"

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


@dataclass(frozen=True, slots=True)
class PublicKey:
    """`public` are its 32 bytes. Without a role (a bare PEM file) it counts for both, and without times for ever.

    A retired key signs no more: what it signed before still counts. A revoked one may be somebody else's as well: then
    nothing that it signed counts, since only its holder says when that was.
    """

    public: bytes
    role: str | None = None
    name: str = ""
    not_before: datetime | None = None
    not_after: datetime | None = None
    retired_at: datetime | None = None
    revoked_at: datetime | None = None

    @property
    def key_id(self) -> str:
        return key_id_of(self.public)

    def problem_at(self, moment: datetime, *, now: datetime) -> str:
        """Why a signature that says it was made at `moment` does not count: a code, empty when it does."""
        if self.revoked_at is not None:
            return "key.revoked"
        if moment > now + CLOCK_SLACK:
            return "key.signed_in_the_future"
        if self.not_before is not None and moment + CLOCK_SLACK < self.not_before:
            return "key.not_yet_valid"
        if self.not_after is not None and moment > self.not_after:
            return "key.expired"
        return "key.retired" if self.retired_at is not None and moment > self.retired_at else ""


def read_public_keys(data: bytes) -> list[PublicKey]:
    """The keys of a file: one key document, a list of them, or one PEM block. Raises KeyProblem."""
    if data.lstrip().startswith(b"-----BEGIN"):
        return [PublicKey(_pem(data))]
    try:
        document = load_object(data, size=MAX_BYTES, items=20 * MAX_KEYS)
    except JsonProblem as problem:
        raise KeyProblem(f"It is neither a key document nor PEM ({problem.code}).") from problem
    if document.get("schema") != LIST_SCHEMA:
        return [_key(document)]
    keys = document.get("keys")
    if document.keys() != {"schema", "keys"} or not isinstance(keys, list) or len(keys) > MAX_KEYS:
        raise KeyProblem("It is no list of keys.")
    return [_key(key) for key in keys]


def parse_time(text: object) -> datetime | None:
    """A moment in UTC as our documents write it; None for anything else."""
    if not isinstance(text, str) or not _TIME.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _pem(data: bytes) -> bytes:
    try:
        key = load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise KeyProblem("It is no public key in PEM; a private key is never needed here.") from error
    if not isinstance(key, Ed25519PublicKey):
        raise KeyProblem("It is a key of another algorithm than Ed25519.")
    return key.public_bytes_raw()


def _key(document: Any) -> PublicKey:
    if not isinstance(document, dict) or document.keys() != _FIELDS or document["schema"] != KEY_SCHEMA:
        raise KeyProblem(f"It is no document of {KEY_SCHEMA}.")
    if document["algorithm"] != "ed25519":
        raise KeyProblem("It is a key of another algorithm than Ed25519.")
    if document["role"] not in ROLES or not isinstance(document["name"], str):
        raise KeyProblem("Its role or name is none.")
    try:
        public = base64.b64decode(document["public_key"], validate=True)
    except (TypeError, ValueError, binascii.Error):
        public = b""
    if len(public) != 32 or document["key_id"] != key_id_of(public):
        raise KeyProblem("Its id is not that of its 32 bytes.")
    times = {name: _time(document[name], name) for name in ("not_before", "not_after", "retired_at", "revoked_at")}
    return PublicKey(public, document["role"], document["name"], **times)


def _time(text: object, name: str) -> datetime | None:
    moment = parse_time(text)
    if text is not None and moment is None:
        raise KeyProblem(f"{name} is no moment in UTC.")
    return moment
