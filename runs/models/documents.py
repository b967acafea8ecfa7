"""Profiles, task bundles and endpoints that are known here, as text with their hashes."""

import json
from typing import Any

from django.db import models
from django.db.models import Q


class Profile(models.Model):
    """A stored profile document. ``source`` holds the file's own bytes, which never change."""

    name = models.CharField(max_length=64)
    schema = models.CharField(max_length=64)
    description = models.TextField(blank=True)
    document = models.TextField(help_text="Canonical JSON")
    source = models.BinaryField()
    content_sha256 = models.CharField(max_length=64)
    file_sha256 = models.CharField(max_length=64)
    startable = models.BooleanField(default=False, help_text="Whether its suites are installed here")
    created_at = models.DateTimeField(auto_now_add=True)
    created_by_name = models.CharField(max_length=150, blank=True)

    class Meta:
        ordering = ["name", "-id"]
        constraints = [models.UniqueConstraint(fields=["content_sha256", "file_sha256"], name="profile_once")]

    def __str__(self) -> str:
        return f"{self.name} {self.content_sha256[:8]}"


class BundleStatus(models.TextChoices):
    """How far a revision is: only a reviewed one may run, and a reviewed one never changes."""

    DRAFT = "draft", "Draft"
    CERTIFIED = "certified", "Certified"
    REVIEWED = "reviewed", "Reviewed"
    RETIRED = "retired", "Retired"


class FrozenBundle(Exception):
    """A reviewed or retired revision was about to be changed; a change is a new revision."""

    code = "bundle.frozen"
    sentence = "A reviewed bundle never changes; build a new revision instead."


class _Kept(models.QuerySet["TaskBundle"]):
    def delete(self) -> tuple[int, dict[str, int]]:
        if self.filter(status__in=[BundleStatus.REVIEWED, BundleStatus.RETIRED]).exists():
            raise FrozenBundle("a query with reviewed revisions")
        return super().delete()


class TaskBundle(models.Model):
    """One revision of a bundle. Once reviewed it only ever moves to retired (also guarded by a trigger)."""

    name = models.CharField(max_length=64)
    revision = models.PositiveIntegerField()
    manifest = models.TextField(help_text="Canonical JSON")
    manifest_sha256 = models.CharField(max_length=64)
    packaged = models.CharField(max_length=64, blank=True, help_text="Its folder in the package; empty when imported")
    stored_at = models.DateTimeField(null=True, blank=True, help_text="When the storage held all its files")
    status = models.CharField(max_length=16, choices=BundleStatus, default=BundleStatus.DRAFT)
    certification = models.TextField(blank=True, help_text="The record of the certification as JSON")
    certified_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    created_by_id = models.BigIntegerField(null=True, blank=True)
    created_by_name = models.CharField(max_length=150, blank=True)
    reviewed_at = models.DateTimeField(null=True, blank=True)
    reviewed_by_id = models.BigIntegerField(null=True, blank=True)
    reviewed_by_name = models.CharField(max_length=150, blank=True)
    review_note = models.TextField(blank=True)
    retired_at = models.DateTimeField(null=True, blank=True)
    retired_by_name = models.CharField(max_length=150, blank=True)

    objects = _Kept.as_manager()

    class Meta:
        ordering = ["name", "-revision"]
        constraints = [
            models.UniqueConstraint(fields=["name", "revision"], name="bundle_revision_once"),
            models.UniqueConstraint(
                fields=["name"], condition=Q(status="reviewed"), name="bundle_one_reviewed_revision"
            ),
            models.CheckConstraint(
                condition=Q(status__in=["draft", "certified"]) | Q(reviewed_at__isnull=False),
                name="bundle_reviewed_has_time",
            ),
            models.CheckConstraint(
                condition=~Q(status="retired") | Q(retired_at__isnull=False), name="bundle_retired_has_time"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} revision {self.revision}"

    @property
    def place(self) -> str:
        """Where its files are: `package`, `storage`, or `missing` for one that has to be imported again."""
        if self.packaged:
            return "package"
        return "storage" if self.stored_at else "missing"

    @property
    def frozen(self) -> bool:
        return self.status in (BundleStatus.REVIEWED, BundleStatus.RETIRED)

    def save(self, *args: Any, **kwargs: Any) -> None:
        stored = TaskBundle.objects.filter(pk=self.pk).values_list("status", flat=True).first()
        if stored in (BundleStatus.REVIEWED, BundleStatus.RETIRED):
            raise FrozenBundle(f"{self} is {stored}")
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        if self.frozen:
            raise FrozenBundle(f"{self} is {self.status}")
        return super().delete(*args, **kwargs)


class Route(models.TextChoices):
    """How a gateway reaches an endpoint."""

    DIRECT = "direct", "Direct"
    HOST_GATEWAY = "host-gateway", "Host gateway"


class Endpoint(models.Model):
    """One version of an endpoint's record. A change is a new version; only ``active`` ever moves."""

    name = models.CharField(max_length=64)
    version = models.PositiveIntegerField()
    record = models.TextField(help_text="Canonical JSON of the endpoint document")
    record_sha256 = models.CharField(max_length=64)
    base_url = models.CharField(max_length=500)
    host = models.CharField(max_length=255)
    model = models.CharField(max_length=200)
    served_model = models.CharField(max_length=200, blank=True)
    route = models.CharField(max_length=16, choices=Route)
    scripted = models.BooleanField(default=False)
    active = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)
    created_by_name = models.CharField(max_length=150, blank=True)

    class Meta:
        ordering = ["name", "-version"]
        constraints = [
            models.UniqueConstraint(fields=["name", "version"], name="endpoint_version_once"),
            models.UniqueConstraint(fields=["name"], condition=Q(active=True), name="endpoint_one_active"),
        ]

    def __str__(self) -> str:
        return f"{self.name} version {self.version}"

    @property
    def served_models(self) -> list[str]:
        """The other names with which it may answer. The column `served_model` has the name when there is just one."""
        record = json.loads(self.record)
        only = record.get("served_model")
        return record.get("served_models") or ([only] if only else [])


class EndpointStop(models.Model):
    """The switch of an endpoint, by its name and so for all of its versions: while this row stands, no traffic."""

    name = models.CharField(max_length=64, unique=True)
    reason = models.CharField(max_length=300)
    stopped_at = models.DateTimeField(auto_now_add=True)
    stopped_by_id = models.BigIntegerField(null=True)
    stopped_by_name = models.CharField(max_length=150)

    def __str__(self) -> str:
        return f"{self.name} stopped"
