"""A real run's folder with a worker's and a site's statement, made of the pure parts alone."""

import base64
import hashlib
import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchsite.lib.folder import Folder
from evidence.origin.envelope import Envelope, sign, write_envelope
from evidence.origin.public_keys import PublicKey
from evidence.origin.statement import PUBLISHED, RUN_ENVELOPE, SUITE_ENVELOPE, Statement, Trial, write_statement
from evidence.reading.tree import tree_files
from evidence.suite.judgement import judge
from evidence.suite.run_facts import read_run

REAL = Path(__file__).parents[1] / "fixtures/real-run"
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
WORKER, SITE, OTHER = (Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in (1, 2, 3))


def public(key: Ed25519PrivateKey, **more: Any) -> PublicKey:
    return PublicKey(key.public_key().public_bytes_raw(), **more)


def key_document(key: Ed25519PrivateKey, role: str, **more: Any) -> dict[str, Any]:
    raw = key.public_key().public_bytes_raw()
    return {
        "schema": "benchsite.public-key/v1",
        "key_id": hashlib.sha256(raw).hexdigest(),
        "algorithm": "ed25519",
        "public_key": base64.b64encode(raw).decode(),
        "role": role,
        "name": "local",
        "not_before": None,
        "not_after": None,
        "retired_at": None,
        "revoked_at": None,
        **more,
    }


KEYS = [public(WORKER, role="worker", name="local"), public(SITE, role="site", name="bench")]


def stated(run: Path) -> Statement:
    """What a worker states of a folder, as it is."""
    facts = read_run(run)
    judgement = judge(facts, cleanup_clean=True)
    counts = judgement.suite.counts
    return Statement(
        role="worker",
        run_id=str(facts.run_id),
        spec_sha256=str(facts.spec_sha256),
        verdict=judgement.suite.verdict.value,
        counts={name: getattr(counts, name) for name in counts.__dataclass_fields__},
        signed_at=NOW - timedelta(hours=1),
        by="local",
        published={path: hashlib.sha256((run / path).read_bytes()).hexdigest() for path in PUBLISHED},
        files=tuple(tree_files(Folder(run), foreign=True)),
        trials=tuple(
            Trial(trial.trial, result.bucket.value, result.code)
            for trial, result in zip(facts.trials, judgement.trials, strict=True)
        ),
        cleanup="clean",
    )


def publication(worker: Statement, **changes: Any) -> Statement:
    payload = Envelope(write_statement(worker), ()).payload_sha256
    site = Statement(
        role="site",
        by="bench",
        statement_sha256=payload,
        **{
            name: getattr(worker, name)
            for name in ("run_id", "spec_sha256", "verdict", "counts", "signed_at", "published")
        },
    )
    return replace(site, **changes)


def put(run: Path, path: str, statement: Statement, key: Ed25519PrivateKey | None) -> None:
    payload = write_statement(statement)
    (run / path).write_bytes(write_envelope(Envelope(payload, () if key is None else (sign(payload, key),))))


def put_documents(run: Path) -> None:
    (run / "evidence").mkdir(exist_ok=True)
    for path in PUBLISHED:
        (run / path).write_text(json.dumps({"schema": path, "run": {"id": "x"}}))


def signed_run(target: Path, source: Path = REAL) -> Path:
    """A copy of a run's folder at `target`, signed by the worker and countersigned by the site."""
    run = shutil.copytree(source, target)
    put_documents(run)
    worker = stated(run)
    put(run, RUN_ENVELOPE, worker, WORKER)
    put(run, SUITE_ENVELOPE, publication(worker), SITE)
    return run
