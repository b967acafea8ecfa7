"""The endpoint's credential, read from the file or environment variable that the endpoint names.

It is never stored: it goes to the gateway's standard input and to the scrubbing of evidence, and nowhere else.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

from django.conf import settings

from benchsite.lib.problems import CodedError
from runs.checks.check import Check
from runs.documents.credentials import evidence_check
from runs.documents.endpoints import Credential, EnvCredential, FileCredential, NoCredential, is_own_variable

LONGEST_CREDENTIAL = 16 * 1024


class CredentialError(CodedError):
    """The credential cannot be read."""


def read_credential(reference: Credential) -> str | None:
    """The value that an endpoint's record refers to; None for an endpoint that asks for none."""
    match reference:
        case NoCredential():
            return None
        case EnvCredential(name=name):
            return _checked(os.environ.get(name), f"environment variable {name}")
        case FileCredential(name=name):
            return _checked(_file(Path(name)), f"file {name}")


def evidence_checks(reference: Credential, *documents: str) -> Iterator[Check]:
    """Whether evidence can be searched for the credential; nothing when there is none, or when it cannot be read, which
    whoever needs it says."""
    with suppress(CredentialError):
        value = read_credential(reference)
        if value is not None:
            yield evidence_check(value, *documents)


def _file(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            _refuse_own(file, path)
            return file.read(LONGEST_CREDENTIAL + 1).decode("utf-8").strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise CredentialError(
            "credential.unreadable", f"The credential file {path} cannot be read by the worker.", str(error)
        ) from error


def _refuse_own(file: IO[bytes], path: Path) -> None:
    """Raise for a file, by whatever name, that holds a secret of the site itself: it would go to the endpoint."""
    opened = os.fstat(file.fileno())
    if any(own.exists() and os.path.samestat(opened, own.stat()) for own in _own_secrets()):
        sentence = f"The file {path} holds a secret of this site and is no endpoint's credential. Name another file."
        raise CredentialError("credential.own_secret", sentence)


def _own_secrets() -> Iterator[Path]:
    yield settings.DATA / "secret-key"
    yield from (settings.DATA / "keys").glob("*.pem")
    for name, value in os.environ.items():
        if name.endswith("_FILE") and is_own_variable(name.removesuffix("_FILE")):
            yield Path(value)


def _checked(value: str | None, place: str) -> str:
    if not value:
        raise CredentialError(
            "credential.missing", f"The endpoint's credential is not there: set the {place} on the worker."
        )
    if len(value) > LONGEST_CREDENTIAL or not value.isprintable():
        raise CredentialError("credential.malformed", f"The {place} does not hold one line of printable text.")
    return value
