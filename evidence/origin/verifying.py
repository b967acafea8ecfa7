"""Verifying a run's folder, a ZIP of it, or a suite result alone: against its statements and the keys that are given.

Three words, each proved by itself:

- consistent: the files are the ones that the statements list, none changed, missing or added;
- authentic: those statements were signed by a given key of the right role, at a time when it counted;
- re-derivable: the classifier gives the same results again from the files (the product alone can try that).

Consistent says nothing of who wrote the files, authentic nothing of whether the signer told the truth, re-derivable
nothing of where they come from.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from benchsite.lib.folder import FileState, Folder
from benchsite.lib.foreign_files import is_foreign
from evidence.origin.envelope import MAX_BYTES, Envelope, EnvelopeProblem, is_signed_by, read_envelope
from evidence.origin.public_keys import PublicKey
from evidence.origin.statement import (
    PUBLISHED,
    RUN_ENVELOPE,
    SUITE_ENVELOPE,
    SUITE_PATH,
    Statement,
    StatementProblem,
    Stored,
    read_statement,
)
from evidence.reading.tree import LEFT_OUT, MAX_FILE_BYTES, MAX_FILES, TreeFile

SCHEMA = "benchsite.verification/v1"
ENVELOPES = {"worker": RUN_ENVELOPE, "site": SUITE_ENVELOPE}
_PLAIN = (FileState.OK, FileState.EMPTY)
_SHOWN = 8  # of a list of files, in words; the document has all


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that does not hold: a stable code, the file that it is about, and a sentence."""

    code: str
    path: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Signer:
    """Who vouches for one statement: `code` is empty when the signature counts, else why it does not."""

    role: str
    key_id: str
    name: str
    signed_at: str
    code: str
    sentence: str

    @property
    def counts(self) -> bool:
        return not self.code


@dataclass(frozen=True, slots=True)
class Word:
    """One of the three words. `holds` is None when it was not tried."""

    holds: bool | None
    sentence: str


@dataclass(frozen=True, slots=True)
class ExpectedOrigin:
    """What the caller knows from elsewhere: what else is genuine, but another run, is a difference."""

    run_id: str | None = None
    spec_sha256: str | None = None


@dataclass(slots=True)
class Verification:
    """What was found. `whole` says that the run's own files are there and not only what is published of them."""

    whole: bool
    statements: dict[str, Statement] = field(default_factory=dict)
    signers: list[Signer] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    not_covered: list[str] = field(default_factory=list)
    not_here: list[str] = field(default_factory=list)
    consistent: Word = Word(False, "")
    authentic: Word = Word(False, "")
    rederivable: Word = Word(None, "")

    @property
    def holds(self) -> bool:
        words = (self.consistent, self.authentic, self.rederivable)
        return not self.differences and all(word.holds is not False for word in words)

    @property
    def statement(self) -> Statement | None:
        """The one that says most, signed or not."""
        return self.statements.get("worker") or self.statements.get("site")


type Rederive = Callable[[Folder, Statement], Iterable[Difference]]
"""What differs when the run is classified again from its files."""


def verify(
    files: Folder,
    keys: Iterable[PublicKey],
    *,
    expected: ExpectedOrigin = ExpectedOrigin(),
    rederive: Rederive | None = None,
    only_suite: bool = False,
    envelope: bytes | None = None,
    now: datetime | None = None,
) -> Verification:
    """Verify what is in `files`, or with `only_suite` its suite result alone. Writes nothing, raises OSError alone.

    `envelope` stands in for the one that lies beside a suite result. `rederive` is None where there is no classifier.
    """
    listing = files.walk(limit=MAX_FILES)
    paths = [SUITE_PATH] if only_suite else [entry.path for entry in listing.entries]
    found = Verification(whole=any(not LEFT_OUT.fullmatch(path) and not is_foreign(path) for path in paths))
    if listing.truncated and not only_suite:
        found.differences.append(Difference("folder.too_many", "", f"There are more than {MAX_FILES:,} files."))
    _read_statements(files, found, list(keys), envelope, now or datetime.now(UTC))
    _compare_statements(found, expected)
    _compare_files(files, paths, found)
    _say_consistent(found)
    _say_authentic(found)
    _say_rederivable(files, found, rederive)
    return found


def _read_statements(
    files: Folder, found: Verification, keys: list[PublicKey], given: bytes | None, now: datetime
) -> None:
    payload_sha256: dict[str, str] = {}
    for role, path in ENVELOPES.items():
        data = given if given is not None and role == "site" else _data(files, path, found)
        if data is None:
            continue
        try:
            envelope = read_envelope(data)
            statement = read_statement(envelope.payload)
        except (EnvelopeProblem, StatementProblem) as problem:
            found.differences.append(Difference(problem.code, path, problem.sentence))
            continue
        if statement.role != role:
            found.differences.append(
                Difference("statement.other_role", path, f"It is a statement of a {statement.role}, not of a {role}.")
            )
            continue
        found.statements[role] = statement
        found.signers.append(_signer(envelope, statement, keys, now))
        payload_sha256[role] = envelope.payload_sha256
    worker, site = found.statements.get("worker"), found.statements.get("site")
    if worker is None or site is None:
        return
    if site.statement_sha256 not in (None, payload_sha256["worker"], *worker.replaces):
        found.differences.append(
            Difference("statement.other_run", SUITE_ENVELOPE, "The site countersigned another statement of a worker.")
        )


def _data(files: Folder, path: str, found: Verification) -> bytes | None:
    read = files.read(path, limit=MAX_BYTES)
    if read.state is FileState.MISSING:
        return None
    if read.state is not FileState.OK:
        found.differences.append(Difference("envelope.json", path, f"It cannot be read: {read.state.value}."))
        return None
    return read.data


def _signer(envelope: Envelope, statement: Statement, keys: list[PublicKey], now: datetime) -> Signer:
    """The key that signed, the first whose signature counts before others. Of a key that is given twice, as in an old
    list and a new one, the copy by which it does not count decides."""
    moment = statement.signed_at.strftime("%Y-%m-%dT%H:%M:%SZ")

    def signer(code: str, sentence: str, key: PublicKey | None = None) -> Signer:
        return Signer(statement.role, key.key_id if key else "", key.name if key else "", moment, code, sentence)

    if not envelope.signatures:
        return signer("signature.none", f"The {statement.role}'s statement is not signed.")
    tried = [key for key in keys if is_signed_by(envelope, key.public)]
    if not tried:
        named = {signature.key_id for signature in envelope.signatures}
        if any(key.key_id in named for key in keys):
            return signer("signature.wrong", f"The {statement.role}'s signature names a given key and is not its own.")
        return signer("signature.other_key", f"None of the given keys signed the {statement.role}'s statement.")
    found = sorted((_judged(key, statement, now, signer) for key in tried), key=lambda each: each.counts)
    ended = {each.key_id for each in found if not each.counts}
    return next((each for each in found if each.key_id not in ended), found[0])


def _judged(key: PublicKey, statement: Statement, now: datetime, signer: Callable[..., Signer]) -> Signer:
    if key.role not in (None, statement.role):
        return signer("key.other_role", f"The key of a {key.role} signed the statement of a {statement.role}.", key)
    code = key.problem_at(statement.signed_at, now=now)
    sentences = {
        "": f"Signed by the {statement.role}'s key {key.name or key.key_id[:16]}.",
        "key.revoked": "The key was revoked, so nothing that it signed counts.",
        "key.signed_in_the_future": "The statement says that it was signed in the future.",
        "key.not_yet_valid": "The statement says that it was signed before the key was valid.",
        "key.expired": "The statement says that it was signed after the key had expired.",
        "key.retired": "The statement says that it was signed after the key was retired.",
    }
    return signer(code, sentences[code], key)


def _compare_statements(found: Verification, expected: ExpectedOrigin) -> None:
    worker, site, any_of_them = found.statements.get("worker"), found.statements.get("site"), found.statement
    if worker is not None and site is not None:
        for name in ("run_id", "spec_sha256", "verdict", "counts", "published"):
            if getattr(worker, name) != getattr(site, name):
                sentence = f"Worker and site say different things of the run ({name})."
                found.differences.append(Difference("statement.other_run", SUITE_ENVELOPE, sentence))
    for name in ("run_id", "spec_sha256"):
        asked = getattr(expected, name)
        if any_of_them is not None and asked is not None and asked != getattr(any_of_them, name):
            sentence = f"The statement's {name} is {getattr(any_of_them, name)}, not the expected one."
            found.differences.append(Difference("statement.not_expected", "", sentence))


def _compare_files(files: Folder, paths: list[str], found: Verification) -> None:
    """Every file that is there against what is listed, and every listed one against what is there."""
    statement = found.statement
    worker = found.statements.get("worker") if found.whole else None
    listed = {file.path for file in worker.files} if worker else set()
    for path in sorted(paths):
        if path in listed or path in PUBLISHED or path in ENVELOPES.values():
            continue
        if is_foreign(path):
            found.ignored.append(path)
        elif LEFT_OUT.fullmatch(path):
            found.not_covered.append(path)
        elif statement is not None:
            found.differences.append(Difference("file.added", path, "No statement lists this file."))
    for file in worker.files if worker else ():
        otherwise = worker.stored_otherwise.get(file.path) if worker else None
        found.differences += _file_differences(files, file, otherwise, found)
    for path, digest in (statement.published if statement else {}).items():
        state, _, is_now = files.sha256(path, limit=MAX_FILE_BYTES) if path in paths else (FileState.MISSING, 0, None)
        if state is FileState.MISSING and path != SUITE_PATH:
            found.not_here.append(path)
        elif is_now != digest:
            found.differences.append(_differs(path, state))
    for path in PUBLISHED:
        if path in paths and statement is not None and path not in statement.published:
            found.differences.append(Difference("file.added", path, "No statement lists this file."))


def _file_differences(
    files: Folder, listed: TreeFile, otherwise: Stored | None, found: Verification
) -> Iterator[Difference]:
    """A copy of the folder has each file as it was listed, an export as it was stored."""
    path = listed.path
    state, size, digest = files.sha256(path, limit=MAX_FILE_BYTES)
    plain, missing = state in _PLAIN, state is FileState.MISSING
    expected = [(each.size, each.sha256) for each in (listed, otherwise) if each is not None and each.sha256]
    if plain and (size, digest) in expected:
        return
    if missing and (listed.sha256 is None or (otherwise is not None and otherwise.sha256 is None)):
        found.not_here.append(path)
    elif plain or listed.sha256 is not None:  # what could not be read when it was signed can never be again
        yield _differs(path, state)


def _differs(path: str, state: FileState) -> Difference:
    if state is FileState.MISSING:
        return Difference("file.missing", path, "It is listed and not there.")
    if state in _PLAIN:
        return Difference("file.differs", path, "It is another file than the listed one.")
    return Difference("file.differs", path, f"It cannot be read as the listed file: {state.value}.")


def _say_consistent(found: Verification) -> None:
    if found.statement is None:
        found.consistent = Word(False, "No statement says which files there should be.")
    elif found.differences:
        found.consistent = Word(False, "Not everything is as the statements say: see the differences.")
    elif found.whole and "worker" not in found.statements:
        found.consistent = Word(False, "The worker's statement, which lists the run's files, is not there.")
    else:
        what = f"{len(found.statement.files)} files are" if found.whole else "What is published is"
        found.consistent = Word(True, f"{what} as the statements list, and nothing was added.")


def _say_authentic(found: Verification) -> None:
    """What vouches for the files has to count. The other statement may be signed by a key that was not given."""
    decisive = [signer for signer in found.signers if signer.role == "worker" or not found.whole]
    if not decisive:
        found.authentic = Word(False, "There is no signed statement.")
        return
    wrong = [signer for signer in found.signers if signer.code not in ("", "signature.none", "signature.other_key")]
    good = [signer for signer in decisive if signer.counts]
    shown = (wrong or good or decisive)[0]
    found.authentic = Word(bool(good) and not wrong, f"{shown.sentence} It says that was at {shown.signed_at}.")


def _say_rederivable(files: Folder, found: Verification, rederive: Rederive | None) -> None:
    worker = found.statements.get("worker")
    if not found.whole:
        found.rederivable = Word(None, "The run's own files are not here.")
    elif rederive is None:
        found.rederivable = Word(None, "Only benchsite itself can classify the files again.")
    elif worker is None:
        found.rederivable = Word(None, "No statement says what the run amounts to.")
    else:
        differing = list(rederive(files, worker))
        found.differences += differing
        sentence = "The files give the same verdict, and each trial the same result."
        if differing:
            sentence = f"Classified again, {len(differing)} results are not the stated ones."
        found.rederivable = Word(not differing, sentence)


def as_document(found: Verification) -> dict[str, Any]:
    """The result as JSON; `holds` is what the exit code says."""
    statement = found.statement
    words = {"consistent": found.consistent, "authentic": found.authentic, "rederivable": found.rederivable}
    return {
        "schema": SCHEMA,
        "holds": found.holds,
        "run_id": statement.run_id if statement else None,
        "spec_sha256": statement.spec_sha256 if statement else None,
        "verdict": statement.verdict if statement else None,
        "counts": dict(statement.counts) if statement else None,
        **{name: {"holds": word.holds, "sentence": word.sentence} for name, word in words.items()},
        "signatures": [
            {
                "role": signer.role,
                "key_id": signer.key_id or None,
                "name": signer.name or None,
                "signed_at": signer.signed_at,
                "counts": signer.counts,
                "code": signer.code or None,
                "sentence": signer.sentence,
            }
            for signer in found.signers
        ],
        "differences": [
            {"code": each.code, "path": each.path or None, "sentence": each.sentence} for each in found.differences
        ],
        "ignored": found.ignored,
        "not_covered": found.not_covered,
        "not_here": found.not_here,
    }


def as_lines(found: Verification) -> Iterator[str]:
    """The result in words, one line each; names of files are as they are, and may hold anything."""
    statement = found.statement
    if statement is not None:
        counts = statement.counts
        yield f"run {statement.run_id}: {statement.verdict}, {counts['passed']} of {counts['requested']} passed"
    for name, word in (
        ("consistent", found.consistent),
        ("authentic", found.authentic),
        ("re-derivable", found.rederivable),
    ):
        yield f"{name}: {'not tried' if word.holds is None else 'yes' if word.holds else 'NO'}. {word.sentence}"
    for each in found.differences:
        yield f"  {each.code}: {each.path + ': ' if each.path else ''}{each.sentence}"
    for title, paths in (
        ("ignored, because a desktop system puts such files there", found.ignored),
        ("not covered by any statement, and not judged", found.not_covered),
        ("listed, and not part of this copy", found.not_here),
    ):
        if paths:
            more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
            yield f"{title}: {', '.join(paths[:_SHOWN])}{more}"
