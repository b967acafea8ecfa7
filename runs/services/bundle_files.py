"""Files of imported bundles: stored by SHA-256 in the default storage, fetched and verified by each worker.

A stored bundle is one blob for each file of a task, one for the canonical manifest and one for the certification's
record, named after their SHA-256 below `bundles/sha256/`. The manifest in the row says which blobs belong to it. A
worker puts them together again below `<data>/bundle-cache/<manifest's SHA-256>/`.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.utils import timezone

from benchsite.lib.canonical import canonical_bytes, sha256
from benchsite.lib.disk import StorageOutage, asking_storage
from benchsite.lib.problems import Problem, refuse
from runs.documents.bundle.manifest import LoadedBundle, load_manifest, verify_bundle
from runs.documents.bundle.packaged import packaged_folder
from runs.documents.bundle.tree import MAX_TREE_BYTES, FileRecord, read_tree
from runs.models import TaskBundle
from runs.ownership.scratch import scratch
from runs.ownership.storage import LockBusy, flocked, make_lock

PREFIX = "bundles/sha256"
CACHE = "bundle-cache"
MAX_CACHED = 8
_LOCK = ".lock"
_ATTEMPTS = 10  # several imports at once may take each other's half-written blob for a changed one
ABANDONED_AFTER = timedelta(days=1)
# No hash covers a file's mode, so it follows from the content: a script or a program may be carried out.
_EXECUTABLE = (b"#!", b"\x7fELF")


class BundleStorageFails(StorageOutage):
    """The storage cannot be asked for a bundle's files."""

    code = "bundle.storage_fails"
    sentence = (
        "The storage of the bundle's files does not answer as it should. The bundle is not at fault, and nothing is "
        "known to be lost. See to the storage, then try again."
    )


class BundleFilesUnusable(Exception):
    """What the storage holds is not the whole bundle. `detail` is private; `integrity`: it holds something else."""

    code: str
    sentence: str
    integrity = False

    def __init__(self, bundle: str, detail: str) -> None:
        super().__init__(detail)
        self.sentence = self.sentence.format(bundle=bundle)
        self.detail = detail


class BundleNotStored(BundleFilesUnusable):
    code = "bundle.not_stored"
    sentence = "The storage does not hold every file of {bundle}. Import it again: manage.py bundle import FOLDER."


class StoredBundleChanged(BundleFilesUnusable):
    code = "bundle.stored_changed"
    integrity = True
    sentence = (
        "A stored file of {bundle} is not the one of its manifest. Find out who writes to the storage, then import the "
        "bundle again: manage.py bundle import FOLDER."
    )


class _Differs(Exception):
    """The blob has other bytes than its name says."""


_asking = partial(asking_storage, BundleStorageFails)


def blob_name(digest: str) -> str:
    """Where the storage keeps the bytes that have this SHA-256."""
    return f"{PREFIX}/{digest[:2]}/{digest}"


def store_files(folder: Path, bundle: LoadedBundle, certification: bytes) -> None:
    """Store every file of the verified bundle in `folder`, its manifest and the record of its certification, if any.

    What is there already stays, and everything is read back. Raises DocumentError when a file was changed since it was
    verified, or is executable and would not be so again; BundleStorageFails, OSError for a full disk.
    """
    for task in bundle.manifest.tasks:
        place = folder / "tasks" / task.name
        found = read_tree(place).files
        for file in task.files:
            path, data = f"tasks/{task.name}/{file.path}", found.get(file.path, b"")
            if sha256(data) != file.sha256:
                raise refuse("bundle.file_changed", "the file was changed while the bundle was imported", path)
            if (place / file.path).stat().st_mode & 0o111 and not data.startswith(_EXECUTABLE):
                sentence = "an executable file begins with #! or is a program; no hash covers its mode"
                raise refuse("bundle.mode_not_kept", sentence, path)
            _store(data)
    for document in (canonical_bytes(bundle.document), certification):
        if document:
            _store(document)


def collect_abandoned() -> int:
    """Remove blobs that no stored bundle names and that are older than `ABANDONED_AFTER`; returns their number.

    They come from imports that failed or were killed. One that goes on is never that old, and begins with this.
    Raises BundleStorageFails, and DocumentError when the manifest of a row cannot be read.
    """
    before = timezone.now() - ABANDONED_AFTER
    named, removed = _named(), 0
    with (
        _asking(),
        suppress(FileNotFoundError, NotImplementedError),
    ):  # nothing stored yet; a storage that lists nothing
        for digits in default_storage.listdir(PREFIX)[0]:
            for digest in default_storage.listdir(f"{PREFIX}/{digits}")[1]:
                name = f"{PREFIX}/{digits}/{digest}"
                if digest in named or default_storage.get_modified_time(name) >= before:
                    continue
                if digest not in _named():  # asked anew: a row may come at any moment
                    default_storage.delete(name)
                    removed += 1
    return removed


def _named() -> set[str]:
    """The hashes of all blobs that stored bundles are made of."""
    found: set[str] = set()
    for row in TaskBundle.objects.filter(packaged=""):
        found |= {file.sha256 for file in _listed(load_manifest(row.manifest.encode()))}
        found |= {sha256(text.encode()) for text in (row.manifest, row.certification) if text}
    return found


def check_stored(bundle: TaskBundle) -> list[Problem]:
    """Every file of a bundle that the storage (of a packaged bundle: the package) lacks or holds otherwise.

    Raises DocumentError for a row whose manifest was tampered with, BundleStorageFails.
    """
    loaded = load_manifest(bundle.manifest.encode())
    if bundle.packaged:
        return verify_bundle(packaged_folder(bundle.packaged), loaded)
    documents = {"manifest.json": bundle.manifest, "certification.json": bundle.certification}
    kept = [_record(path, text.encode()) for path, text in documents.items() if text]
    problems = []
    for file in [*_listed(loaded), *kept]:
        try:
            _read(file)
        except FileNotFoundError:
            problems.append(Problem(file.path, BundleNotStored.code, "the storage does not hold the file"))
        except _Differs:
            problems.append(Problem(file.path, StoredBundleChanged.code, "the stored file is another one"))
    return problems


@contextmanager
def bundle_folder(bundle: TaskBundle, data: Path) -> Iterator[Path]:
    """A folder with the bundle's `tasks/`, for as long as the context lasts: packaged, or fetched from the storage.

    A fetched one stays in the cache below `data`, which holds the last 8 that were used; one that is no longer whole
    is fetched again. Raises BundleFilesUnusable, BundleStorageFails, DocumentError, OSError.
    """
    if bundle.packaged:
        yield packaged_folder(bundle.packaged)
        return
    loaded = load_manifest(bundle.manifest.encode())
    cache = data / CACHE
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    make_lock(cache / _LOCK)
    with ExitStack() as held:
        cached = cache / loaded.manifest_sha256
        if _shared(held, cache / _LOCK) and _is_whole(cached, loaded):
            os.utime(cached)
            yield cached
            return
        held.close()
        folder = held.enter_context(scratch(data, "bundle")) / loaded.manifest_sha256
        _fetch(str(bundle), loaded, folder)
        yield folder
        # The cache only spares time: where it cannot be kept, the next run fetches again.
        with suppress(OSError, LockBusy), flocked(cache / _LOCK, 0):
            _keep(folder, cached)


def _fetch(name: str, bundle: LoadedBundle, folder: Path) -> None:
    for task in bundle.manifest.tasks:
        if sum(file.size for file in task.files) > MAX_TREE_BYTES:
            raise StoredBundleChanged(name, f"task {task.name} is larger than a bundle's task may be")
    folder.mkdir(mode=0o700)
    for file in _listed(bundle):
        try:
            content = _read(file)
        except FileNotFoundError as error:
            raise BundleNotStored(name, f"{file.path} is missing: {blob_name(file.sha256)}") from error
        except _Differs as error:
            raise StoredBundleChanged(name, f"{file.path} differs: {blob_name(file.sha256)}") from error
        path = folder / file.path
        for parent in reversed(path.relative_to(folder).parents[:-1]):
            (folder / parent).mkdir(mode=0o700, exist_ok=True)
        mode = 0o700 if content.startswith(_EXECUTABLE) else 0o600
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "wb") as written:
            written.write(content)


def _listed(bundle: LoadedBundle) -> Iterator[FileRecord]:
    """The manifest's files, with paths relative to the bundle's folder. A loaded manifest has safe paths only."""
    for task in bundle.manifest.tasks:
        for file in task.files:
            yield FileRecord(f"tasks/{task.name}/{file.path}", file.size, file.sha256)


def _record(path: str, data: bytes) -> FileRecord:
    return FileRecord(path, len(data), sha256(data))


def _read(file: FileRecord) -> bytes:
    """The blob's bytes. Raises FileNotFoundError, _Differs, BundleStorageFails; reads no more than it should have."""
    with _asking(), default_storage.open(blob_name(file.sha256), "rb") as stored:
        data: bytes | None = stored.read(file.size + 1) if stored.size == file.size else None
    if data is None or sha256(data) != file.sha256:
        raise _Differs
    return data


def _store(data: bytes) -> None:
    """Store a blob unless it is there, and read it back."""
    blob = _record("", data)
    name = blob_name(blob.sha256)
    for _ in range(_ATTEMPTS):
        try:
            _read(blob)
            return
        except FileNotFoundError:
            pass
        except _Differs:  # tampered with, or half of it, from an import that was killed
            with _asking():
                default_storage.delete(name)
        with _asking():
            saved = default_storage.save(name, ContentFile(data))
            if saved != name:  # somebody else stored it at this moment
                default_storage.delete(saved)
    raise BundleStorageFails("what was written is not what is read back")


def _shared(held: ExitStack, lock: Path) -> bool:
    """Whether the cache may be read now; nothing is removed from it until `held` is closed."""
    descriptor = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    held.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_whole(folder: Path, bundle: LoadedBundle) -> bool:
    try:
        linked = folder.is_symlink() or (folder / "tasks").is_symlink()
        return not linked and not verify_bundle(folder, bundle)
    except OSError:
        return False


def _keep(folder: Path, cached: Path) -> None:
    """Move a fetched folder into the cache, in place of one that is not whole, and remove those used longest ago."""
    others = [path for path in cached.parent.iterdir() if path.name not in (_LOCK, cached.name)]
    others.sort(key=lambda path: path.lstat().st_mtime)
    for path in [cached, *others[: max(0, len(others) - MAX_CACHED + 1)]]:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    folder.rename(cached)
