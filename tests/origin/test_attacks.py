"""Whoever has a run's folder and no key makes nothing of it that verifies as something else."""

import base64
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from benchsite.lib.folder import Folder
from evidence.management.commands.verify import rederive
from evidence.origin.envelope import Envelope, sign, signed_bytes, write_envelope
from evidence.origin.public_keys import PublicKey
from evidence.origin.sources import SuiteAlone
from evidence.origin.statement import PUBLISHED, RUN_ENVELOPE, SUITE_ENVELOPE, SUITE_PATH, Statement, write_statement
from evidence.origin.verifying import ExpectedOrigin, Verification, verify
from tests.evidence.folders import passing_run
from tests.origin.signed import (
    KEYS,
    NOW,
    OTHER,
    REAL,
    SITE,
    WORKER,
    public,
    publication,
    put,
    put_documents,
    signed_run,
    stated,
)

LEDGER = "ledger.jsonl"
REWARD = "trials/1/kept/verifier/reward.json"


def verified(run: Path, keys: list[PublicKey] = KEYS, **more: Any) -> Verification:
    return verify(Folder(run), keys, now=NOW, **more)


def codes(found: Verification) -> set[str]:
    return {each.code for each in found.differences} | {signer.code for signer in found.signers if signer.code}


def envelope_of(run: Path, path: str = RUN_ENVELOPE) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((run / path).read_bytes())
    return document


def rewrite(run: Path, document: object, path: str = RUN_ENVELOPE) -> None:
    (run / path).write_text(document if isinstance(document, str) else json.dumps(document))


def payload_of(run: Path) -> bytes:
    return base64.b64decode(envelope_of(run)["payload"])


def with_payload(run: Path, payload: bytes) -> None:
    """The worker's own signature of something else."""
    (run / RUN_ENVELOPE).write_bytes(write_envelope(Envelope(payload, (sign(payload, WORKER),))))


def test_what_was_signed_holds_in_three_words(tmp_path: Path) -> None:
    found = verified(signed_run(tmp_path / "run"), rederive=rederive)
    assert found.holds
    assert (found.consistent.holds, found.authentic.holds, found.rederivable.holds) == (True, True, True)
    assert [signer.key_id for signer in found.signers] == [key.key_id for key in KEYS]


def test_one_key_is_enough_and_the_sites_alone_is_not_for_a_folder(tmp_path: Path) -> None:
    run = signed_run(tmp_path / "run")
    assert verified(run, KEYS[:1]).holds
    found = verified(run, KEYS[1:])
    assert not found.holds
    assert found.consistent.holds
    assert not found.authentic.holds


# One change of a folder that its holder can make, and the code that tells of it.

ANOTHER = "0" * 32


def another_ledger(run: Path) -> None:
    shutil.copy(run / "ledger.jsonl", run / "trials/1/x")
    (run / "trials/1/x").unlink()
    (run / LEDGER).write_bytes((run / LEDGER).read_bytes().replace(b'"ok"', b'"no"'))


def minimal_rewrite(run: Path) -> None:
    """1d: a reward and its hash in the attendant's record."""
    (run / REWARD).write_bytes(b'{"reward":  1}')


def other_run(run: Path) -> None:
    """The envelope of another run, signed by the same worker."""
    case = passing_run(1)
    other = case.write(run.parent / "other")
    put_documents(other)
    put(run, RUN_ENVELOPE, stated(other), WORKER)
    (run / SUITE_ENVELOPE).unlink()


def replay(run: Path) -> None:
    """The statement from before a file was changed."""
    (run / "run.json").write_bytes((run / "run.json").read_bytes() + b" ")


def stripped(run: Path) -> None:
    rewrite(run, {**envelope_of(run), "signatures": []})


def removed(run: Path) -> None:
    (run / RUN_ENVELOPE).unlink()


def all_removed(run: Path) -> None:
    removed(run)
    (run / SUITE_ENVELOPE).unlink()


def other_key(run: Path) -> None:
    put(run, RUN_ENVELOPE, stated(run), OTHER)


def other_key_under_its_name(run: Path) -> None:
    other_key(run)
    document = envelope_of(run)
    document["signatures"][0]["keyid"] = KEYS[0].key_id
    rewrite(run, document)


def sites_key(run: Path) -> None:
    """Who may sign what is published may not sign runs."""
    put(run, RUN_ENVELOPE, stated(run), SITE)


def exchanged(run: Path) -> None:
    first, second = ((run / path).read_bytes() for path in (RUN_ENVELOPE, SUITE_ENVELOPE))
    (run / RUN_ENVELOPE).write_bytes(second)
    (run / SUITE_ENVELOPE).write_bytes(first)


def other_type(run: Path) -> None:
    rewrite(run, {**envelope_of(run), "payloadType": "application/json"})


def signed_as_other_type(run: Path) -> None:
    """A signature that the key made over the same bytes as something else."""
    payload = payload_of(run)
    value = WORKER.sign(signed_bytes(payload, "text/plain"))
    document = envelope_of(run)
    document["signatures"][0]["sig"] = base64.b64encode(value).decode()
    rewrite(run, document)


def signed_bare(run: Path) -> None:
    document = envelope_of(run)
    document["signatures"][0]["sig"] = base64.b64encode(WORKER.sign(payload_of(run))).decode()
    rewrite(run, document)


def changed_payload(run: Path) -> None:
    payload = payload_of(run).replace(b'"quarantined":false', b'"quarantined":true')
    rewrite(run, {**envelope_of(run), "payload": base64.b64encode(payload).decode()})


def bit_of_signature(run: Path) -> None:
    document = envelope_of(run)
    value = bytearray(base64.b64decode(document["signatures"][0]["sig"]))
    value[0] ^= 1
    document["signatures"][0]["sig"] = base64.b64encode(value).decode()
    rewrite(run, document)


def short_signature(run: Path) -> None:
    document = envelope_of(run)
    document["signatures"][0]["sig"] = base64.b64encode(bytes(32)).decode()
    rewrite(run, document)


def algorithm_in_envelope(run: Path) -> None:
    document = envelope_of(run)
    document["signatures"][0] |= {"alg": "none"}
    rewrite(run, document)


def loose_base64(run: Path) -> None:
    document = envelope_of(run)
    document["payload"] = document["payload"][:8] + "\n" + document["payload"][8:]
    rewrite(run, document)


def two_payloads(run: Path) -> None:
    text = (run / RUN_ENVELOPE).read_text()
    rewrite(run, text.replace('{"payload":', '{"payload":"e30=","payload":', 1))


def duplicate_key(run: Path) -> None:
    with_payload(run, payload_of(run).replace(b'"verdict":', b'"verdict":"failed","verdict":', 1))


def other_statement_type(run: Path) -> None:
    with_payload(run, payload_of(run).replace(b"in-toto.io/Statement/v1", b"in-toto.io/Statement/v0.1"))


def other_predicate(run: Path) -> None:
    with_payload(run, payload_of(run).replace(b"urn:benchsite:run:v1", b"https://slsa.dev/provenance/v1"))


def unknown_field(run: Path) -> None:
    with_payload(run, payload_of(run).replace(b'"by":', b'"buy":1,"by":', 1))


def no_statement(run: Path) -> None:
    with_payload(run, b"[]")


def added(run: Path) -> None:
    (run / "trials/1/kept/more").write_bytes(b"")


def added_trial(run: Path) -> None:
    shutil.copytree(run / "trials/1", run / "trials/4")


def missing(run: Path) -> None:
    (run / "trials/2/supervision.json").unlink()


def missing_trial(run: Path) -> None:
    shutil.rmtree(run / "trials/3")


def moved(run: Path) -> None:
    (run / "trials/1/harbor.log").rename(run / "trials/2/harbor.log2")


def linked(run: Path) -> None:
    shutil.copy(run / LEDGER, run.parent / "ledger")
    (run / LEDGER).unlink()
    (run / LEDGER).symlink_to("../ledger")


def linked_folder(run: Path) -> None:
    (run / "trials/1").rename(run.parent / "one")
    (run / "trials/1").symlink_to("../../one")


def pipe(run: Path) -> None:
    (run / LEDGER).unlink()
    os.mkfifo(run / LEDGER)


def linked_envelope(run: Path) -> None:
    (run / RUN_ENVELOPE).rename(run.parent / "envelope")
    (run / RUN_ENVELOPE).symlink_to("../../envelope")


def suite_changed(run: Path) -> None:
    (run / SUITE_PATH).write_text('{"schema":"other"}')


def suite_gone(run: Path) -> None:
    (run / SUITE_PATH).unlink()


def countersigned_another(run: Path) -> None:
    worker = stated(run)
    put(run, SUITE_ENVELOPE, publication(worker, statement_sha256="1" * 64), SITE)


def countersigned_more(run: Path) -> None:
    worker = stated(run)
    put(run, SUITE_ENVELOPE, publication(worker, verdict="failed"), SITE)


ATTACKS: dict[str, tuple[Callable[[Path], None], str]] = {
    found.__name__: (found, code)
    for found, code in (
        (another_ledger, "file.differs"),
        (minimal_rewrite, "file.differs"),
        (other_run, "file.differs"),
        (replay, "file.differs"),
        (stripped, "signature.none"),
        (removed, "file.added"),
        (other_key, "signature.other_key"),
        (other_key_under_its_name, "signature.wrong"),
        (sites_key, "key.other_role"),
        (exchanged, "statement.other_role"),
        (other_type, "envelope.payload_type"),
        (signed_as_other_type, "signature.wrong"),
        (signed_bare, "signature.wrong"),
        (changed_payload, "signature.wrong"),
        (bit_of_signature, "signature.wrong"),
        (short_signature, "envelope.signatures"),
        (algorithm_in_envelope, "envelope.signatures"),
        (loose_base64, "envelope.base64"),
        (two_payloads, "envelope.json"),
        (duplicate_key, "statement.invalid"),
        (other_statement_type, "statement.invalid"),
        (other_predicate, "statement.invalid"),
        (unknown_field, "statement.invalid"),
        (no_statement, "statement.invalid"),
        (added, "file.added"),
        (added_trial, "file.added"),
        (missing, "file.missing"),
        (missing_trial, "file.missing"),
        (moved, "file.added"),
        (linked, "file.differs"),
        (linked_folder, "file.added"),
        (pipe, "file.differs"),
        (linked_envelope, "envelope.json"),
        (suite_changed, "file.differs"),
        (suite_gone, "file.missing"),
        (countersigned_another, "statement.other_run"),
        (countersigned_more, "statement.other_run"),
    )
}


@pytest.mark.parametrize(("change", "code"), ATTACKS.values(), ids=ATTACKS)
def test_what_a_holder_of_the_folder_changes_does_not_verify(
    change: Callable[[Path], None], code: str, tmp_path: Path
) -> None:
    run = signed_run(tmp_path / "run")
    change(run)
    found = verified(run)
    assert code in codes(found), codes(found)
    assert not found.holds


def test_without_any_statement_nothing_is_claimed(tmp_path: Path) -> None:
    run = signed_run(tmp_path / "run")
    all_removed(run)
    found = verified(run, rederive=rederive)
    assert (found.consistent.holds, found.authentic.holds, found.rederivable.holds) == (False, False, None)
    assert not found.holds


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"not_before": NOW - timedelta(minutes=30)}, "key.not_yet_valid"),
        ({"not_after": NOW - timedelta(hours=2)}, "key.expired"),
        ({"retired_at": NOW - timedelta(hours=2)}, "key.retired"),
        ({"revoked_at": NOW}, "key.revoked"),
        ({"role": "site"}, "key.other_role"),
    ],
)
def test_a_key_counts_only_for_its_role_and_at_its_time(changes: dict[str, Any], code: str, tmp_path: Path) -> None:
    run = signed_run(tmp_path / "run")
    ended = public(WORKER, **{"role": "worker", **changes})
    # Beside an older copy of the list, or the bare key, which says of no end, it does not count either.
    for keys in ([ended, KEYS[1]], [KEYS[0], ended, KEYS[1]], [ended, public(WORKER), KEYS[1]]):
        found = verified(run, keys)
        assert codes(found) == {code}
        assert not found.holds


def test_a_key_that_expired_or_was_retired_since_still_counts_for_what_it_signed(tmp_path: Path) -> None:
    run = signed_run(tmp_path / "run")
    late = {"not_after": NOW - timedelta(minutes=30), "retired_at": NOW - timedelta(minutes=45)}
    assert verified(run, [public(WORKER, role="worker", **late)]).holds


def test_another_key_that_counts_is_enough_beside_one_that_was_revoked(tmp_path: Path) -> None:
    run = signed_run(tmp_path / "run")
    payload = payload_of(run)
    twice = Envelope(payload, (sign(payload, WORKER), sign(payload, OTHER)))
    (run / RUN_ENVELOPE).write_bytes(write_envelope(twice))
    assert verified(run, [public(WORKER, role="worker", revoked_at=NOW), public(OTHER, role="worker")]).holds


def test_a_key_that_was_always_valid_verifies(tmp_path: Path) -> None:
    first = datetime(1, 1, 1, tzinfo=UTC)
    assert verified(signed_run(tmp_path / "run"), [public(WORKER, role="worker", not_before=first)]).holds


def test_a_statement_from_the_future_does_not_count(tmp_path: Path) -> None:
    run = signed_run(tmp_path / "run")
    put(run, RUN_ENVELOPE, replace(stated(run), signed_at=NOW + timedelta(days=1)), WORKER)
    assert "key.signed_in_the_future" in codes(verified(run))


@pytest.mark.parametrize("name", ["run_id", "spec_sha256"])
def test_a_genuine_run_is_not_another_one_that_was_expected(name: str, tmp_path: Path) -> None:
    run = signed_run(tmp_path / "run")
    statement = stated(run)
    assert verified(run, expected=ExpectedOrigin(**{name: getattr(statement, name)})).holds
    found = verified(run, expected=ExpectedOrigin(**{name: "0" * len(getattr(statement, name))}))
    assert codes(found) == {"statement.not_expected"}


def test_a_signer_that_states_what_the_files_do_not_give_is_found_out(tmp_path: Path) -> None:
    """The key proves who said it, not that it is so."""
    case = passing_run(1)
    case.trial.reward(json=b'{"reward": 0}')
    run = case.write(tmp_path / "run")
    put_documents(run)
    honest = stated(run)
    put(run, RUN_ENVELOPE, honest, WORKER)
    assert verified(run, rederive=rederive).holds
    counts = {**honest.counts, "passed": 1, "failed": 0}
    trial = replace(honest.trials[0], bucket="passed", code="passed.reward_1")
    put(run, RUN_ENVELOPE, replace(honest, verdict="passed", counts=counts, trials=(trial,)), WORKER)
    found = verified(run, rederive=rederive)
    assert (found.consistent.holds, found.authentic.holds, found.rederivable.holds) == (True, True, False)
    assert codes(found) == {"result.verdict", "result.trial"}


@pytest.mark.parametrize("path", [".DS_Store", "trials/1/kept/._x", "__MACOSX/trials/._1"])
def test_what_a_desktop_system_put_there_is_ignored_and_named(path: str, tmp_path: Path) -> None:
    run = signed_run(tmp_path / "run")
    (run / path).parent.mkdir(parents=True, exist_ok=True)
    (run / path).write_bytes(b"x")
    found = verified(run)
    assert found.holds
    assert found.ignored == [path]


def test_a_file_of_such_a_name_that_was_signed_is_held_to_it(tmp_path: Path) -> None:
    source = shutil.copytree(REAL, tmp_path / "source")
    (source / "trials/1/kept/.DS_Store").write_bytes(b"an agent's")
    run = signed_run(tmp_path / "run", source)
    assert verified(run).holds
    (run / "trials/1/kept/.DS_Store").write_bytes(b"another's")
    assert codes(verified(run)) == {"file.differs"}


def test_what_is_not_evidence_is_named_as_not_covered(tmp_path: Path) -> None:
    run = signed_run(tmp_path / "run")
    (run / "tasks").mkdir()
    (run / "tasks/x").write_bytes(b"x")
    found = verified(run)
    assert found.holds
    assert found.not_covered == ["tasks/x"]


# The suite result alone, and what is published.


def alone(run: Path, keys: list[PublicKey] = KEYS, **more: Any) -> Verification:
    return verify(SuiteAlone(run / SUITE_PATH), keys, only_suite=True, now=NOW, **more)


def test_a_suite_result_alone_is_consistent_and_authentic_and_never_re_derived(tmp_path: Path) -> None:
    run = signed_run(tmp_path / "run")
    for keys in (KEYS, KEYS[:1], KEYS[1:]):
        found = alone(run, keys, rederive=rederive)
        assert found.holds
        assert (found.consistent.holds, found.authentic.holds, found.rederivable.holds) == (True, True, None)
    (run / RUN_ENVELOPE).unlink()
    assert alone(run, KEYS[1:]).holds
    assert not alone(run, KEYS[:1]).holds


def test_a_changed_suite_result_does_not_verify_whatever_lies_beside_it(tmp_path: Path) -> None:
    run = signed_run(tmp_path / "run")
    suite_changed(run)
    assert codes(alone(run)) == {"file.differs"}
    forged = replace(stated(run), verdict="failed")
    put(run, RUN_ENVELOPE, forged, OTHER)
    assert not alone(run).holds
    (run / SUITE_ENVELOPE).unlink()
    assert not alone(run).holds


def test_an_envelope_may_be_given(tmp_path: Path) -> None:
    run = signed_run(tmp_path / "run")
    data = (run / SUITE_ENVELOPE).read_bytes()
    (run / SUITE_ENVELOPE).unlink()
    (run / RUN_ENVELOPE).unlink()
    assert not alone(run).holds
    assert alone(run, envelope=data).holds


def test_what_is_published_verifies_by_itself_and_nothing_may_lie_beside_it(tmp_path: Path) -> None:
    run = signed_run(tmp_path / "run")
    public_copy = tmp_path / "public"
    (public_copy / "evidence").mkdir(parents=True)
    for path in (*PUBLISHED, SUITE_ENVELOPE):
        shutil.copy(run / path, public_copy / path)
    found = verified(public_copy, rederive=rederive)
    assert found.holds
    assert found.rederivable.holds is None
    shutil.copy(run / "spec.json", public_copy / "spec.json")
    assert codes(verified(public_copy)) == {"file.added"}


# What an export makes of files that the register does not hold as they are.


def exported(run: Path, statement: Statement) -> None:
    put(run, RUN_ENVELOPE, statement, WORKER)


def test_an_export_lacks_what_was_not_stored_and_holds_ends_of_logs(tmp_path: Path) -> None:
    from hashlib import sha256

    from evidence.origin.statement import Stored

    run = signed_run(tmp_path / "run")
    log, gone = "trials/1/harbor.log", "trials/2/harbor.log"
    end = (run / log).read_bytes()[-10:]
    otherwise = {log: Stored("truncated_source", 10, sha256(end).hexdigest()), gone: Stored("too_large", 0, None)}
    exported(run, replace(stated(run), stored_otherwise=otherwise))
    put(run, SUITE_ENVELOPE, publication(replace(stated(run), stored_otherwise=otherwise)), SITE)
    assert verified(run).holds
    (run / log).write_bytes(end)
    (run / gone).unlink()
    found = verified(run)
    assert found.holds
    assert found.not_here == [gone]
    (run / log).write_bytes(end[1:])
    assert codes(verified(run)) == {"file.differs"}
    (run / log).unlink()
    assert codes(verified(run)) == {"file.missing"}


def test_the_statement_itself_contradicts_nothing(tmp_path: Path) -> None:
    """A key's holder that lists files under another tree's hash, or counts that do not add up, states nothing."""
    run = signed_run(tmp_path / "run")
    payload = write_statement(stated(run))
    for old, new in (
        (b'"passed":3', b'"passed":2'),
        (stated(run).folder_sha256.encode(), b"0" * 64),
        (b'["journal.json",', b'["journal.jsonl",'),
        (b'"quarantined":false', b'"quarantined":0'),
        (b'"requested":3', b'"requested":3.0'),
        (b"T11:00:00.000000Z", b"T25:00:00.000000Z"),
        (b'"cleanup":"clean"', b'"cleanup":"declared"'),
    ):
        assert old in payload
        with_payload(run, payload.replace(old, new))
        assert "statement.invalid" in codes(verified(run)), old
