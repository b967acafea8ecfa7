"""Documents of public keys, and the keys of a host: made, read strictly, rotated, retired, revoked."""

import json
import os
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa, x25519
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from django.core.management import call_command
from django.utils import timezone

from evidence.models import SigningKey
from evidence.origin.public_keys import KeyProblem, read_public_keys
from evidence.register import keys
from evidence.register.keys import CannotSign
from runs.models import AuditEntry
from runs.services.access import Role
from runs.services.refusals import BadInput
from tests.origin.signed import WORKER, key_document, public
from tests.runs.rows import person

PEM = WORKER.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
PRIVATE_PEM = WORKER.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def test_a_key_is_read_as_pem_as_a_document_and_from_a_list() -> None:
    document = key_document(WORKER, "worker", not_before="2026-01-01T00:00:00.000000Z")
    assert read_public_keys(PEM) == [public(WORKER)]
    (found,) = read_public_keys(json.dumps(document).encode())
    assert (found.public, found.role, found.name) == (public(WORKER).public, "worker", "local")
    listed = {"schema": "benchsite.public-keys/v1", "keys": [document, key_document(WORKER, "site")]}
    assert [key.role for key in read_public_keys(json.dumps(listed).encode())] == ["worker", "site"]


def other_algorithms() -> list[bytes]:
    made = [ec.generate_private_key(ec.SECP256R1()), x25519.X25519PrivateKey.generate()]
    made.append(rsa.generate_private_key(65537, 2048))
    return [key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo) for key in made]


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{}", b"[]", b"ssh-ed25519 AAAA", b"\xff", PRIVATE_PEM, PEM[:40],
        json.dumps(key_document(WORKER, "admin")).encode(),
        json.dumps({**key_document(WORKER, "worker"), "algorithm": "hmac-sha256"}).encode(),
        json.dumps({**key_document(WORKER, "worker"), "key_id": "0" * 64}).encode(),
        json.dumps({**key_document(WORKER, "worker"), "public_key": "AAAA"}).encode(),
        json.dumps({**key_document(WORKER, "worker"), "revoked_at": ""}).encode(),
        json.dumps({**key_document(WORKER, "worker"), "retired_at": "yesterday"}).encode(),
        json.dumps({**key_document(WORKER, "worker"), "not_after": 9999999999}).encode(),
        json.dumps({**key_document(WORKER, "worker"), "more": 1}).encode(),
        json.dumps(key_document(WORKER, "worker")).replace('"role"', '"role": "site", "role"').encode(),
        json.dumps({"schema": "benchsite.public-keys/v1", "keys": {}}).encode(),
        *other_algorithms(),
    ],
)  # fmt: skip
def test_anything_else_is_no_key(data: bytes) -> None:
    with pytest.raises(KeyProblem):
        read_public_keys(data)


@pytest.fixture
def data(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    settings.DATA = tmp_path / "data"
    for name in ("BENCHSITE_WORKER_KEY", "BENCHSITE_SITE_KEY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(f"{name}_FILE", raising=False)
    return tmp_path / "data"


def refused(role: str = "worker") -> str:
    with pytest.raises(CannotSign) as caught:
        keys.signing_key(role)
    return caught.value.code


@pytest.mark.django_db
def test_a_key_is_made_once_for_this_account_alone_and_its_private_half_is_in_no_row(data: Path) -> None:
    assert refused() == "signing.no_key"
    row = keys.make(user=person("somebody", Role.OPERATOR), role="worker")
    path = data / "keys/worker.pem"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    private, listed = keys.signing_key("worker")
    assert listed == row
    assert refused("site") == "signing.no_key"
    secret = private.private_bytes_raw()
    stored = " ".join(str(value) for value in SigningKey.objects.values().get().values())
    assert secret.hex() not in stored
    assert keys.base64.b64encode(secret).decode() not in stored
    assert AuditEntry.objects.get(kind="signing_key").detail == {"act": "make", "role": "worker"}
    with pytest.raises(BadInput, match="rotate"):
        keys.make(user=person("somebody", Role.OPERATOR), role="worker")


@pytest.mark.django_db
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o620, 0o601])
def test_a_key_that_others_may_touch_is_refused(mode: int, data: Path) -> None:
    keys.make(user=person("somebody", Role.OPERATOR), role="worker")
    (data / "keys/worker.pem").chmod(mode)
    assert refused() == "signing.key_open"


def _rsa() -> bytes:
    return rsa.generate_private_key(65537, 2048).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@pytest.mark.django_db
@pytest.mark.parametrize("content", [lambda: b"", lambda: PEM, _rsa, lambda: PRIVATE_PEM + bytes(5000)])
def test_what_is_no_private_key_is_refused_by_name(content: Callable[[], bytes], data: Path) -> None:
    (data / "keys").mkdir(parents=True)
    (data / "keys/worker.pem").write_bytes(content())
    (data / "keys/worker.pem").chmod(0o600)
    assert refused() == "signing.key_unreadable"


@pytest.mark.django_db
def test_a_pipe_or_a_folder_in_its_place_holds_nothing_up(data: Path) -> None:
    (data / "keys").mkdir(parents=True)
    os.mkfifo(data / "keys/worker.pem", 0o600)
    assert refused() == "signing.key_unreadable"
    (data / "keys/worker.pem").unlink()
    (data / "keys/worker.pem").mkdir()
    assert refused() == "signing.key_unreadable"


@pytest.mark.django_db
def test_a_key_may_come_from_a_variable_or_a_file_that_one_names(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHSITE_WORKER_KEY", PRIVATE_PEM.decode())
    assert refused() == "signing.key_unknown"
    row = keys.make(user=person("somebody", Role.OPERATOR), role="worker")
    assert row.key_id == public(WORKER).key_id
    assert not (data / "keys").exists(), "it is kept where it was"
    with pytest.raises(BadInput, match="BENCHSITE_WORKER_KEY"):
        keys.rotate(user=person("somebody", Role.OPERATOR), role="worker")
    monkeypatch.delenv("BENCHSITE_WORKER_KEY")
    monkeypatch.setenv("BENCHSITE_WORKER_KEY_FILE", str(tmp_path / "key"))
    assert refused() == "signing.no_key"
    (tmp_path / "key").write_bytes(PRIVATE_PEM)
    (tmp_path / "key").chmod(0o644)
    assert refused() == "signing.key_open"
    (tmp_path / "key").chmod(0o400)
    assert keys.signing_key("worker")[1] == row
    monkeypatch.setenv("BENCHSITE_WORKER_KEY", PRIVATE_PEM.decode())
    assert refused() == "signing.key_unreadable", "both are set"


@pytest.mark.django_db
def test_a_rotation_retires_the_old_key_and_what_it_signed_still_counts(data: Path) -> None:
    user = person("somebody", Role.OPERATOR)
    old = keys.make(user=user, role="worker")
    signed_at = timezone.now()
    new = keys.rotate(user=user, role="worker", days=30)
    old.refresh_from_db()
    assert keys.signing_key("worker")[1] == new
    assert old.retired_at is not None
    assert keys.public_key(old).problem_at(signed_at, now=timezone.now()) == ""
    later = timezone.now() + timedelta(hours=1)
    assert keys.public_key(old).problem_at(later, now=later) == "key.retired"
    assert [keys.state_word(row) for row in (old, new)] == ["retired", "valid"]


@pytest.mark.django_db
def test_a_rotation_that_was_cut_off_is_made_again(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = person("somebody", Role.OPERATOR)
    old = keys.make(user=user, role="worker")

    def cut_off(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(keys, "retire", cut_off)
        keys.rotate(user=user, role="worker")
    assert keys.signing_key("worker")[1] != old
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(keys, "_write", cut_off)
        keys.rotate(user=user, role="worker")
    assert keys.signing_key("worker")[1].retired_at is None


@pytest.mark.django_db
@pytest.mark.parametrize(("end", "code"), [(keys.retire, "signing.key_retired"), (keys.revoke, "signing.key_revoked")])
def test_an_ended_key_signs_no_more(end: Callable[..., SigningKey], code: str, data: Path) -> None:
    user = person("somebody", Role.OPERATOR)
    row = keys.make(user=user, role="worker")
    with pytest.raises(BadInput):
        end(user=user, row=row, reason="")
    end(user=user, row=row, reason="a laptop was lost")
    assert refused() == code
    end(user=user, row=row, reason="again")
    row.refresh_from_db()
    assert row.reason == "a laptop was lost"
    assert AuditEntry.objects.filter(kind="signing_key").count() == 2


@pytest.mark.django_db
def test_an_expired_key_signs_no_more(data: Path) -> None:
    row = keys.make(user=person("somebody", Role.OPERATOR), role="worker", days=1)
    SigningKey.objects.filter(pk=row.pk).update(not_after=timezone.now() - timedelta(seconds=1))
    assert refused() == "signing.key_expired"


@pytest.mark.django_db
def test_viewers_make_no_keys(data: Path) -> None:
    from django.core.exceptions import PermissionDenied

    for act in (keys.make, keys.rotate):
        with pytest.raises(PermissionDenied):
            act(user=person("somebody", Role.VIEWER), role="worker")
    assert not SigningKey.objects.exists()


@pytest.mark.django_db
def test_the_command_makes_lists_and_ends_keys_and_its_list_is_what_verify_takes(data: Path) -> None:
    def called(*arguments: str) -> Any:
        out = StringIO()
        call_command("signing_key", *arguments, "--json", stdout=out)
        return json.loads(out.getvalue())

    made = called("make", "--role", "site", "--days", "365")["keys"][0]
    called("make")
    called("retire", made["key_id"][:16], "--reason", "a test")
    listed = called("list")
    (site,) = (key for key in read_public_keys(json.dumps(listed).encode()) if key.role == "site")
    assert site.key_id == made["key_id"]
    assert site.retired_at is not None
    assert len(listed["keys"]) == 2
    out = StringIO()
    with pytest.raises(SystemExit) as caught:
        call_command("signing_key", "revoke", "abc", "--json", stdout=out)
    assert caught.value.code == 2
    assert json.loads(out.getvalue())["code"] == "signing.no_such_key"
