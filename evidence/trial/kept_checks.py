"""Checks of the copies that the attendant kept: each is what it saw, and nothing is beside them."""

import hashlib
from collections.abc import Mapping
from itertools import accumulate

from benchsite.lib.folder import FileState, Folder
from benchsite.lib.foreign_files import is_foreign
from evidence.reading.observed import AGENT, VERIFIER, CopiedFile, Observed, Transfer
from evidence.reading.proofs import Proof
from evidence.reading.redactions import Redaction, read_redactions

MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_KEPT_FILES = 8192
REWARDS = ("reward.json", "reward.txt")
_PLAIN = (FileState.OK, FileState.EMPTY)
_CODE = "integrity.artifact_hash"
_INPUT = "integrity.verifier_input"


def kept_checks(folder: Folder, base: str, observed: Observed) -> list[Proof]:
    """Each kept file is byte for byte what the attendant hashed when it copied it. Of a record that follows its course
    each is read once: it names no place twice, and no file of a place twice."""
    redactions = _redactions(folder, base)
    checks = []
    for transfer in _kept(observed):
        checks += [_held(folder, path, file, redactions) for path, file in kept_files(base, transfer)]
        if transfer.files > len(transfer.entries):
            checks.append(_held_together(folder, base, transfer, redactions))
    return checks


def recorded_proof(folder: Folder, base: str, observed: Observed) -> Proof:
    """No kept file without a record, above all no reward. Of a grading that was not fetched the classifier says so.
    What a desktop system put beside a copy is none of the run's files; one of such a name that was recorded is."""
    kept = _kept(observed)
    named = {path for transfer in kept for path, _ in kept_files(base, transfer)}
    passed_over = {f"{base}/{transfer.kept}" for transfer in kept if transfer.files > len(transfer.entries)}
    if not any(item.role == VERIFIER and item.purpose == "verifier_logs" for item in observed.transfers):
        passed_over.add(f"{base}/kept/verifier")
    listing = folder.walk(f"{base}/kept", limit=MAX_KEPT_FILES)
    # What is no plain file of a size that is kept is never read as evidence, and has a code of its own.
    plain = [entry for entry in listing.entries if entry.state in _PLAIN and entry.size <= MAX_FILE_BYTES]
    found = [entry.path for entry in plain if entry.path not in named]
    foreign = [path for path in found if not _is_below(path, passed_over) and not is_foreign(path)]
    return Proof("kept.recorded", _CODE, not foreign, f"files that no transfer names: {len(foreign)}")


def _is_below(path: str, places: set[str]) -> bool:
    above = accumulate(path.split("/")[:-1], "{}/{}".format)
    return bool(places) and any(folder in places for folder in above)


def kept_files(base: str, transfer: Transfer) -> list[tuple[str, CopiedFile]]:
    """Paths, relative to the run's folder, of the files that a transfer kept; an unclean one is read as unsafe."""
    root = f"{base}/{transfer.kept}"
    return [(root if entry.path in ("", ".") else f"{root}/{entry.path}", entry) for entry in transfer.entries]


def verifier_input_check(observed: Observed) -> Proof:
    """What the verifier was given was copied out of the agent's container, as it was. Of a transfer that failed, which
    has a code of its own, nothing else was given."""
    fetched = {item.path: item for item in _fetched(observed)}
    foreign = [
        item
        for item in _sent(observed)
        if (item.outcome == "ok" or item.files) and not _is_copy(item, fetched.get(item.path))
    ]
    return Proof("verifier.input", _INPUT, not foreign, f"{len(foreign)} differ")


def whole_input_proof(observed: Observed) -> Proof:
    """The verifier was given all that was copied out of the agent's container for it: every plain file of an output,
    nothing of one that was refused. A transfer that failed is judged as one."""
    sent = {item.path: item for item in _sent(observed)}
    failed = any(item.outcome != "ok" for item in sent.values())
    withheld = [
        item
        for item in _fetched(observed)
        if item.outcome in ("ok", "partial") and item.files and not failed and not _is_copy(sent.get(item.path), item)
    ]
    return Proof("verifier.whole_input", _INPUT, not withheld, f"{len(withheld)} were not handed over")


def _fetched(observed: Observed) -> list[Transfer]:
    return [item for item in observed.transfers if item.role == AGENT and item.purpose == "artifact"]


def _sent(observed: Observed) -> list[Transfer]:
    return [item for item in observed.transfers if item.role == VERIFIER and item.purpose == "artifacts_in"]


def _kept(observed: Observed) -> list[Transfer]:
    return [transfer for transfer in observed.transfers if transfer.kept is not None]


def _is_copy(upload: Transfer | None, download: Transfer | None) -> bool:
    """Whether both, of the same place, moved the same files; of long lists the record names only the first ones."""
    if upload is None or download is None or download.files != upload.files:
        return False
    if download.files > len(download.entries):
        return download.sha256 is not None and download.sha256 == upload.sha256
    return set(download.entries) == set(upload.entries)


def _held(folder: Folder, path: str, file: CopiedFile, redactions: Mapping[str, Redaction]) -> Proof:
    state, _, digest = folder.sha256(path, limit=MAX_FILE_BYTES)
    original = _before_redaction(redactions.get(path), digest)
    held = state in _PLAIN and original == file.sha256
    why = "a file that it copied " + ("has other content" if state in _PLAIN else "is missing or no plain file")
    return Proof(f"kept.{path}", _CODE, held, state.value, why)


def _held_together(folder: Folder, base: str, transfer: Transfer, redactions: Mapping[str, Redaction]) -> Proof:
    """A copy with more files than its record names: all of them by the record's one hash (`combined_sha256`)."""
    root = f"{base}/{transfer.kept}"
    listing = folder.walk(root, limit=MAX_KEPT_FILES)
    paths = sorted(entry.path for entry in listing.entries)
    if len(paths) > transfer.files:  # a desktop system may have put files there; those that were recorded stay
        named = {path for path, _ in kept_files(base, transfer)}
        paths = [path for path in paths if path in named or not is_foreign(path.removeprefix(f"{root}/"))]
    lines = []
    for path in paths if len(paths) == transfer.files else []:  # of another number nothing needs to be read
        _, size, digest = folder.sha256(path, limit=MAX_FILE_BYTES)
        redaction = redactions.get(path)
        if redaction is not None and redaction.sha256 == digest:  # as it was before, which the one hash is over
            size, digest = redaction.original_size, redaction.original_sha256
        lines.append(f"{digest} {size} {path.removeprefix(root + '/')}\n")
    found = hashlib.sha256("".join(lines).encode("utf-8", "replace")).hexdigest()
    held = not listing.truncated and len(paths) == transfer.files and found == transfer.sha256
    return Proof(f"kept.{root}", _CODE, held, f"{len(paths)} files", "an output of many files has other files")


def _redactions(folder: Folder, base: str) -> dict[str, Redaction]:
    """Without the rewards: a reward is one word and a digit, and one from which a secret was taken is none."""
    rewards = {f"{base}/kept/verifier/{name}" for name in REWARDS}
    return {path: found for path, found in read_redactions(folder).items() if path not in rewards}


def _before_redaction(redaction: Redaction | None, digest: str | None) -> str | None:
    """What a file's hash was before a known secret was removed from it, if it is still that scrubbed file."""
    return redaction.original_sha256 if redaction is not None and redaction.sha256 == digest else digest
