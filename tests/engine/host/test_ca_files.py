"""The file of an endpoint's own certificate authorities: only certificates leave it, and what is wrong is said."""

import hashlib
from pathlib import Path

import pytest

from runs.engine.host.ca_files import MAX_CA_BYTES, CaFileError, ca_file_checks, read_ca_file
from tests.gateway.authority import Authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def test_only_its_certificates_are_told_and_the_whole_file_is_hashed(authority: Authority, tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text(f"# of our own\n{authority.pem}\nsubject=CN = another\n{authority.pem}")
    found = read_ca_file(str(file))
    assert found is not None and found.count == 2 and found.pem == f"{authority.pem.strip()}\n{authority.pem.strip()}"
    assert found.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    [check] = ca_file_checks(str(file))
    assert (check.passed, check.code) == (True, "ca_file.read") and found.sha256 in check.detail


def test_a_record_without_one_has_nothing_to_check() -> None:
    assert read_ca_file(None) is None and [*ca_file_checks(None)] == []


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (None, "ca_file.missing"),
        ("", "ca_file.malformed"),
        ("no certificate", "ca_file.malformed"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "ca_file.malformed"),
        ("-----BEGIN PRIVATE KEY-----\nSENTINEL\n-----END PRIVATE KEY-----\n", "ca_file.malformed"),
        ("x" * (MAX_CA_BYTES + 1), "ca_file.malformed"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_a_remedy(tmp_path: Path, content: str | None, code: str) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    with pytest.raises(CaFileError) as caught:
        read_ca_file(str(file))
    assert caught.value.code == code and "ca_file" in caught.value.sentence
    assert "SENTINEL" not in caught.value.sentence + caught.value.detail
    [check] = ca_file_checks(str(file))
    assert check.refuses and (check.code, bool(check.remedy)) == (code, True)


def test_a_folder_is_unreadable_and_a_key_beside_a_certificate_is_refused(authority: Authority, tmp_path: Path) -> None:
    with pytest.raises(CaFileError) as caught:
        read_ca_file(str(tmp_path))
    assert caught.value.code == "ca_file.unreadable"
    both = tmp_path / "both.pem"
    both.write_text(authority.pem + authority.key.read_text())
    with pytest.raises(CaFileError, match="private key"):
        read_ca_file(str(both))
