"""Previews: what was shown to a person before anything started."""

import uuid
from typing import Any

from django.conf import settings
from django.db import models

from runs.models.documents import Endpoint, Profile, TaskBundle
from runs.models.runs import Run
from runs.models.workers import Worker


class Preview(models.Model):
    """A resolved spec with its checks, bound to user, worker and capability digest; used at most once.

    ``request``: ``{"tasks": [name]|null, "max_trial_seconds": int|null, "max_steps": int|null}``.
    ``checks``: ``[{"name", "passed", "code", "detail", "remedy", "level"}]`` with a level of ``block``,
    ``accept`` or ``note``. ``spec`` and its hash are empty when none could be resolved.
    ``consumed_by`` is set once, by compare-and-set, to the run that the confirmation started.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    profile = models.ForeignKey(Profile, on_delete=models.PROTECT, related_name="+")
    bundle = models.ForeignKey(TaskBundle, on_delete=models.PROTECT, related_name="+")
    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, related_name="+")
    worker = models.ForeignKey(Worker, on_delete=models.PROTECT, related_name="+")
    request = models.JSONField(default=dict)
    spec = models.TextField(blank=True, help_text="Canonical JSON")
    spec_sha256 = models.CharField(max_length=64, blank=True)
    checks = models.JSONField(default=list)
    capability_sha256 = models.CharField(max_length=64, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(db_index=True)
    consumed_by = models.OneToOneField(Run, on_delete=models.SET_NULL, null=True, blank=True, related_name="preview")

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"preview {self.spec_sha256[:8]}"

    @property
    def blocking(self) -> list[dict[str, Any]]:
        """The failed checks that refuse the start."""
        return self._failed("block")

    @property
    def to_accept(self) -> list[dict[str, Any]]:
        """The failed checks that must be accepted by name in the confirm step."""
        return self._failed("accept")

    @property
    def notes(self) -> list[dict[str, Any]]:
        """The failed checks that only say so."""
        return self._failed("note")

    def _failed(self, level: str) -> list[dict[str, Any]]:
        return [check for check in self.checks if not check["passed"] and check["level"] == level]
