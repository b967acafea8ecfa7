"""Addresses of the pages of evidence. Files only by an unguessable id, never by a path."""

from django.urls import path

from evidence.web import compare, downloads, listing, origin, trajectory
from runs.web import urls as _converters  # noqa: F401 - registers the converter of run keys

urlpatterns = [
    path("runs/compare/", compare.compare_page, name="compare"),
    path("runs/<key:key>/evidence/", listing.evidence_list, name="evidence"),
    path("runs/<key:key>/evidence/archive/", downloads.archive, name="evidence_archive"),
    path("runs/<key:key>/trials/<int:ordinal>/trajectory/", trajectory.trajectory_page, name="trajectory"),
    path("evidence/<slug:key>/download/", downloads.download, name="evidence_download"),
    path("signing-keys/", origin.signing_keys, name="signing_keys"),
    path("signing-keys/keys.json", origin.signing_keys_file, name="signing_keys_file"),
    path("evidence/<slug:key>/text/", downloads.text, name="evidence_text"),
]
