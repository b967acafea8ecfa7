"""Worker hosts: what each can enforce, and what it has prepared."""

from datetime import timedelta

from django.db import models
from django.db.models import Q
from django.utils import timezone

STALE_AFTER = timedelta(seconds=45)


class Worker(models.Model):
    """A worker host. Its report says what it can enforce; a spec is bound to the report's digest."""

    name = models.CharField(max_length=64, unique=True)
    host = models.CharField(max_length=255, blank=True)
    report = models.TextField(blank=True, help_text="The capability report as canonical JSON")
    capability_sha256 = models.CharField(max_length=64, blank=True)
    reported_at = models.DateTimeField(null=True, blank=True)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    pid = models.PositiveIntegerField(null=True, blank=True)
    start_ticks = models.BigIntegerField(null=True, blank=True)
    boot_id = models.CharField(max_length=36, blank=True)
    draining = models.BooleanField(default=False)
    lost_declared_at = models.DateTimeField(null=True, blank=True)
    lost_declared_by_name = models.CharField(max_length=150, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def queue_name(self) -> str:
        return f"worker:{self.name}"

    @property
    def alive(self) -> bool:
        """Whether its process has neither stopped nor fallen silent; says nothing certain about its runs."""
        if self.pid is None or self.heartbeat_at is None:
            return False
        return timezone.now() - self.heartbeat_at < STALE_AFTER


class HarnessLock(models.Model):
    """The exact Harbor environment that a worker prepared (design 6)."""

    worker = models.ForeignKey(Worker, on_delete=models.CASCADE, related_name="harness_locks")
    lock_sha256 = models.CharField(max_length=64)
    tree_sha256 = models.CharField(max_length=64)
    document = models.TextField(help_text="Canonical JSON")
    current = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["worker", "lock_sha256", "tree_sha256"], name="harness_lock_once"),
            models.UniqueConstraint(fields=["worker"], condition=Q(current=True), name="harness_lock_one_current"),
        ]

    def __str__(self) -> str:
        return f"{self.worker} {self.lock_sha256[:8]}"


class ImageLock(models.Model):
    """Which image id a worker built for a role, and from which recipe (design 6)."""

    worker = models.ForeignKey(Worker, on_delete=models.CASCADE, related_name="image_locks")
    role = models.CharField(max_length=16)
    image_id = models.CharField(max_length=71)
    recipe_sha256 = models.CharField(max_length=64)
    document = models.TextField(help_text="Canonical JSON with layers")
    current = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["role", "-id"]
        constraints = [
            models.UniqueConstraint(fields=["worker", "role", "image_id"], name="image_lock_once"),
            models.UniqueConstraint(
                fields=["worker", "role"], condition=Q(current=True), name="image_lock_one_current"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.worker} {self.role} {self.image_id[:19]}"
