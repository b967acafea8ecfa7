"""The register of evidence: one row per file of a run that was kept, refused, or expected."""

import secrets

from django.db import models
from django.db.models import Q

from runs.models import Run


class ArtifactState(models.TextChoices):
    """What became of a file. Only the first three can be read; the others say why there is nothing to read."""

    OK = "ok", "Stored"
    EMPTY = "empty", "Empty"
    TRUNCATED_SOURCE = "truncated_source", "Not all of it was kept"
    MISSING = "missing", "Missing"
    TOO_LARGE = "too_large", "Refused: too large"
    UNREADABLE = "unreadable", "Unreadable"
    UNSAFE_TYPE = "unsafe_type", "Refused: not a plain file"
    QUARANTINED = "quarantined", "Quarantined: holds a known secret"
    REMOVED = "removed", "Removed"


READABLE = (ArtifactState.OK, ArtifactState.EMPTY, ArtifactState.TRUNCATED_SOURCE)


def new_key() -> str:
    """An unguessable public id; it says nothing about the run or the file."""
    return secrets.token_hex(16)


class Artifact(models.Model):
    """One file of a run's evidence.

    ``path`` is relative to the run's folder and printable. ``size`` in bytes and ``sha256`` are those of what is
    stored; ``source_size`` is the file's own when only a part was kept or nothing. ``redactions`` counts the places
    where a known secret was removed before storing. ``stored`` is the name in the default storage.
    """

    key = models.CharField(max_length=32, unique=True, default=new_key, editable=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="artifacts")
    trial = models.PositiveSmallIntegerField(null=True, blank=True)
    kind = models.CharField(max_length=32)
    path = models.CharField(max_length=1024)
    state = models.CharField(max_length=16, choices=ArtifactState)
    public = models.BooleanField(default=False, help_text="Readable with the run; everything else is private")
    size = models.PositiveBigIntegerField(default=0)
    source_size = models.PositiveBigIntegerField(default=0)
    sha256 = models.CharField(max_length=64, blank=True)
    redactions = models.PositiveIntegerField(default=0)
    note = models.CharField(max_length=200, blank=True)
    stored = models.CharField(max_length=255, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["run", "trial", "path"]
        constraints = [
            models.UniqueConstraint(fields=["run", "path"], name="artifact_path_once"),
            models.CheckConstraint(
                condition=~Q(state__in=[state.value for state in READABLE]) | (~Q(sha256="") & ~Q(stored="")),
                name="artifact_readable_is_stored",
            ),
            models.CheckConstraint(
                condition=Q(state__in=[state.value for state in READABLE]) | Q(public=False),
                name="artifact_public_is_readable",
            ),
        ]
        indexes = [models.Index(fields=["run", "trial", "kind"], name="artifact_by_kind")]

    def __str__(self) -> str:
        return self.path

    @property
    def readable(self) -> bool:
        return self.state in READABLE

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]


class SigningKey(models.Model):
    """The public half of a key that signs, and when that counts; the private half is in no database.

    ``public`` is base64 of its 32 bytes. A retired key signs no more; of a revoked one nothing counts.
    """

    key_id = models.CharField(max_length=64, unique=True)
    public = models.CharField(max_length=44)
    role = models.CharField(max_length=8, choices=[("worker", "Worker"), ("site", "Site")])
    name = models.CharField(max_length=64, help_text="The worker or site that it signs for")
    not_before = models.DateTimeField()
    not_after = models.DateTimeField(null=True, blank=True)
    retired_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    reason = models.CharField(max_length=500, blank=True, help_text="Why it was retired or revoked")
    made_by_name = models.CharField(max_length=150)

    class Meta:
        ordering = ["-not_before", "-id"]

    def __str__(self) -> str:
        return f"{self.role} key {self.key_id[:16]} of {self.name}"


class StatementReason(models.TextChoices):
    """Why a statement about a run was made; a later one replaces the earlier ones of its role, and names them."""

    ENDED = "ended", "The run ended"
    AGAIN = "again", "The run's end was made again after a crash"
    CLEANUP = "cleanup", "A later cleanup changed the journal"
    ASKED = "asked", "Somebody asked for it"


class RunStatement(models.Model):
    """One statement about a run, by the hash of its payload. Without a key it is not signed; ``unsigned`` says why."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="statements")
    role = models.CharField(max_length=8)
    payload_sha256 = models.CharField(max_length=64)
    key = models.ForeignKey(SigningKey, null=True, blank=True, on_delete=models.PROTECT, related_name="statements")
    signed_at = models.DateTimeField()
    reason = models.CharField(max_length=8, choices=StatementReason)
    unsigned = models.CharField(max_length=64, blank=True)

    class Meta:
        ordering = ["-signed_at", "-id"]
        constraints = [models.UniqueConstraint(fields=["run", "payload_sha256"], name="run_statement_once")]

    def __str__(self) -> str:
        return f"{self.role}'s statement about run {self.run_id}"


class LegalHold(models.Model):
    """Somebody's order that a run's evidence must not be removed, until it is released. Rows are never deleted."""

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="legal_holds")
    reason = models.CharField(max_length=500)
    placed_at = models.DateTimeField(auto_now_add=True)
    placed_by_name = models.CharField(max_length=150)
    released_at = models.DateTimeField(null=True, blank=True)
    released_by_name = models.CharField(max_length=150, blank=True)

    class Meta:
        ordering = ["-placed_at", "-id"]
        constraints = [
            models.UniqueConstraint(fields=["run"], condition=Q(released_at__isnull=True), name="legal_hold_once"),
        ]

    def __str__(self) -> str:
        return f"legal hold on {self.run}: {self.reason}"
