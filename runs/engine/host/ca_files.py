"""The certificate authorities of an endpoint, read from the file on the worker that its record names.

Only certificates leave the file: they go to the gateway's standard input, since the gateway has no mounts.
"""

import hashlib
import re
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchsite.lib.problems import CodedError
from runs.checks.check import Check

MAX_CA_BYTES = 256 * 1024
CHECK = "endpoint CA file"
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----")
_REMEDY = "Put the authority's certificate there as PEM, or correct ca_file in the endpoint's record."


class CaFileError(CodedError):
    """The file cannot be used."""


@dataclass(frozen=True, slots=True)
class CaFile:
    """The certificates as PEM, how many they are, and the SHA-256 of the whole file."""

    pem: str
    count: int
    sha256: str


def read_ca_file(path: str | None) -> CaFile | None:
    """What a record's `ca_file` holds; None for a record without one. Raises CaFileError."""
    if path is None:
        return None
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_CA_BYTES + 1)
    except FileNotFoundError as error:
        raise _refused("missing", f"The endpoint's CA file {path} is not on this worker.") from error
    except OSError as error:
        raise _refused("unreadable", f"The worker cannot read the endpoint's CA file {path}.", str(error)) from error
    if len(data) > MAX_CA_BYTES:
        raise _refused("malformed", f"The endpoint's CA file {path} is larger than {MAX_CA_BYTES // 1024} KiB.")
    text = data.decode("ascii", "replace")
    if "PRIVATE KEY" in text:
        sentence = f"The endpoint's CA file {path} holds a private key; nothing of it was used."
        raise _refused("malformed", sentence)
    certificates = _CERTIFICATE.findall(text)
    pem = "\n".join(certificates)
    try:
        if certificates:
            ssl.create_default_context(cadata=pem)
    except ssl.SSLError as error:
        raise _refused("malformed", f"The endpoint's CA file {path} holds what is no certificate.") from error
    if not certificates:
        raise _refused("malformed", f"The endpoint's CA file {path} holds no certificate.")
    return CaFile(pem, len(certificates), hashlib.sha256(data).hexdigest())


def ca_file_checks(path: str | None) -> Iterator[Check]:
    """Whether the worker has the file, with the hash of what it holds; nothing for a record without one."""
    try:
        found = read_ca_file(path)
    except CaFileError as error:
        yield Check(CHECK, False, error.code, error.sentence, _REMEDY)
        return
    if found is not None:
        many = "1 certificate" if found.count == 1 else f"{found.count} certificates"
        yield Check(CHECK, True, "ca_file.read", f"{path} holds {many}; its SHA-256 is {found.sha256}.")


def _refused(kind: str, sentence: str, detail: str = "") -> CaFileError:
    return CaFileError(f"ca_file.{kind}", f"{sentence} {_REMEDY}", detail)
