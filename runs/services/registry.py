"""Stores profiles and endpoints, and finds profiles, endpoints, bundles and workers by name."""

from django.db import transaction
from django.db.models import Model, QuerySet

from benchsite.lib.canonical import JsonObject, canonical_bytes
from benchsite.lib.problems import DocumentError
from runs.documents.endpoints import LoadedEndpoint, load_endpoint, parse_endpoint
from runs.documents.profile.loading import LoadedProfile, load_profile, require_runnable
from runs.documents.spec_inputs import EndpointVersion
from runs.models import AuditKind, BundleStatus, Endpoint, Profile, TaskBundle, Worker
from runs.services import audit
from runs.services.access import AnyUser
from runs.services.refusals import BadInput, UnknownName

_LONGEST_NAME = 255
_SHOWN = "manage.py endpoint list shows those in use."


def store_profile(data: bytes, *, user: AnyUser | None) -> Profile:
    """Store a profile file's bytes; the same bytes twice are one row. Raises DocumentError."""
    loaded = load_profile(data)
    with transaction.atomic():
        profile, created = Profile.objects.get_or_create(
            content_sha256=loaded.content_sha256,
            file_sha256=loaded.file_sha256,
            defaults={
                "name": loaded.name,
                "schema": loaded.schema,
                "description": loaded.description,
                "document": canonical_bytes(loaded.document).decode("ascii"),
                "source": data,
                "startable": loaded.is_runnable,
                "created_by_name": audit.name_of(user),
            },
        )
        if created:
            detail = {"content_sha256": loaded.content_sha256, "file_sha256": loaded.file_sha256}
            audit.record(AuditKind.PROFILE_IMPORT, user=user, subject=loaded.name, detail=detail)
    return profile


def loaded_profile(profile: Profile) -> LoadedProfile:
    """The typed document of a stored profile; raises DocumentError when the row was tampered with."""
    return load_profile(bytes(profile.source))


def find_profile(name: str) -> Profile:
    """The newest profile of that name, or the one whose content hash begins with it (8 characters or more)."""
    found = _named(Profile.objects.all(), name=name).order_by("-id").first()
    if found is None and len(name) >= 8:
        found = _named(Profile.objects.all(), content_sha256__startswith=name).first()
    if found is None:
        known = Profile.objects.values_list("name", flat=True)
        raise UnknownName(
            "profile",
            name,
            known,
            "Install the packaged one with manage.py prepare, or import a file with manage.py profile import FILE.",
        )
    return found


def register_endpoint(record: JsonObject | bytes, *, user: AnyUser | None) -> Endpoint:
    """Store a record as the next version of its name and make it the active one. Raises DocumentError.

    The same record as the active version changes nothing.
    """
    loaded = load_endpoint(record) if isinstance(record, bytes) else parse_endpoint(record)
    with transaction.atomic():
        versions = Endpoint.objects.filter(name=loaded.record.name).order_by("-version")
        newest = versions.first()
        if newest is not None and newest.active and newest.record_sha256 == loaded.record_sha256:
            return newest
        versions.filter(active=True).update(active=False)
        endpoint = Endpoint.objects.create(
            version=1 if newest is None else newest.version + 1,
            created_by_name=audit.name_of(user),
            **_endpoint_columns(loaded),
        )
        detail = {"version": endpoint.version, "record_sha256": endpoint.record_sha256}
        audit.record(AuditKind.ENDPOINT_REGISTER, user=user, subject=endpoint.name, detail=detail)
    return endpoint


def retire_endpoint(endpoint: Endpoint, *, user: AnyUser | None) -> bool:
    """Take an endpoint out of use; its records stay. False when it was not active."""
    with transaction.atomic():
        hit = Endpoint.objects.filter(pk=endpoint.pk, active=True).update(active=False)
        if hit:
            detail = {"version": endpoint.version}
            audit.record(AuditKind.ENDPOINT_RETIRE, user=user, subject=endpoint.name, detail=detail)
    return bool(hit)


def endpoint_version(endpoint: Endpoint) -> EndpointVersion:
    """The record as specs take it; raises DocumentError when the row was tampered with."""
    return EndpointVersion(load_endpoint(endpoint.record.encode()).record, endpoint.version)


def find_endpoint(name: str) -> Endpoint:
    """The active version of an endpoint."""
    found = _named(Endpoint.objects.filter(active=True), name=name).first()
    if found is None:
        known = Endpoint.objects.filter(active=True).values_list("name", flat=True)
        register = "register one with manage.py endpoint register FILE, or in the admin."
        remedy = f"R{register[1:]}" if name else f"Choose one with --endpoint, or {register}"
        raise UnknownName("endpoint", name, known, remedy)
    return found


def endpoint_name(name: str) -> str:
    """The name itself when any version of an endpoint has it, in use or not. Raises UnknownName."""
    if not _named(Endpoint.objects.all(), name=name).exists():
        raise UnknownName("endpoint", name, Endpoint.objects.values_list("name", flat=True).distinct(), _SHOWN)
    return name


def find_bundle(name: str, *, revision: int | None = None) -> TaskBundle:
    """A revision of a bundle: the given one, else the reviewed one, else the newest."""
    revisions = TaskBundle.objects.filter(name=name)
    if revision is not None:
        found = revisions.filter(revision=revision).first()
    else:
        reviewed = revisions.filter(status=BundleStatus.REVIEWED).first()
        found = reviewed or revisions.order_by("-revision").first()
    if found is None:
        known = [f"{row.name} revision {row.revision}" for row in TaskBundle.objects.all()]
        wanted = name if revision is None else f"{name} revision {revision}"
        raise UnknownName("bundle", wanted, known, "Import one with: manage.py bundle import FOLDER.")
    return found


def bundle_of(profile: Profile) -> TaskBundle:
    """The one revision that a profile binds. Raises ``BadInput`` for a profile whose suites do not run here."""
    try:
        wanted = require_runnable(loaded_profile(profile)).suites.environment.task_bundle
    except DocumentError as error:
        raise BadInput.from_document(error) from error
    return find_bundle(wanted.name, revision=wanted.revision)


def find_worker(name: str) -> Worker:
    """The worker host of that name."""
    found = _named(Worker.objects.all(), name=name).first()
    if found is None:
        known = list(Worker.objects.values_list("name", flat=True))
        start = "Choose one of those, or start" if known else "Start"
        raise UnknownName("worker", name, known, f"{start} one on its host: manage.py prepare, then manage.py worker.")
    return found


def _named[M: Model](rows: "QuerySet[M]", **column: str) -> "QuerySet[M]":
    """The rows with this text; none for one that no name holds and that some database would stumble over."""
    [text] = column.values()
    return rows.filter(**column) if text.isprintable() and len(text) <= _LONGEST_NAME else rows.none()


def _endpoint_columns(loaded: LoadedEndpoint) -> dict[str, object]:
    record = loaded.record
    return {
        "name": record.name,
        "record": canonical_bytes(loaded.document).decode("ascii"),
        "record_sha256": loaded.record_sha256,
        "base_url": record.base_url,
        "host": loaded.host,
        "model": record.model,
        "served_model": record.served_models[0] if len(record.served_models) == 1 else "",
        "route": record.route,
        "scripted": record.scripted,
    }
