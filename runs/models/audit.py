"""The audit log: who did what. Entries are only ever added, and survive the user and the thing that they name."""

from typing import Any

from django.db import models


class AuditKind(models.TextChoices):
    """The closed set of audited acts."""

    PREVIEW = "preview", "Previewed a run"
    START = "start", "Started a run"
    CANCEL = "cancel", "Asked to cancel a run"
    CLEANUP = "cleanup", "Retried a cleanup"
    CLEANUP_DECLARED = "cleanup_declared", "Declared a failed cleanup resolved"
    DOWNLOAD = "download", "Downloaded evidence"
    PROFILE_IMPORT = "profile_import", "Imported a profile"
    BUNDLE_IMPORT = "bundle_import", "Imported a bundle"
    BUNDLE_CERTIFY = "bundle_certify", "Certified a bundle"
    BUNDLE_REVIEW = "bundle_review", "Reviewed a bundle"
    BUNDLE_RETIRE = "bundle_retire", "Retired a bundle"
    ENDPOINT_REGISTER = "endpoint_register", "Registered an endpoint"
    ENDPOINT_RETIRE = "endpoint_retire", "Retired an endpoint"
    ENDPOINT_STOP = "endpoint_stop", "Stopped an endpoint's traffic"
    ENDPOINT_ALLOW = "endpoint_allow", "Allowed an endpoint's traffic again"
    ENDPOINT_TEST = "endpoint_test", "Tested an endpoint's connection"
    PERSON = "person", "Changed a person"
    HOST_LOST = "host_lost", "Declared a host lost"
    WORKER_REMOVE = "worker_remove", "Removed a worker"
    EXPIRE = "expire", "Removed expired evidence"
    LEGAL_HOLD = "legal_hold", "Changed a legal hold"
    SIGNING_KEY = "signing_key", "Changed a signing key"
    API_TOKEN = "api_token", "Changed an API token"
    EXPERIMENT_IMPORT = "experiment_import", "Imported an experiment"


class AppendOnly(Exception):
    """An audit entry was about to be changed or deleted."""

    code = "audit.append_only"
    sentence = "Audit entries are only ever added."


class _Kept(models.QuerySet["AuditEntry"]):
    def delete(self) -> tuple[int, dict[str, int]]:
        raise AppendOnly("a whole query")


class AuditEntry(models.Model):
    """One act. No foreign keys: user and subject are copied so that the entry outlives them."""

    at = models.DateTimeField(auto_now_add=True, db_index=True)
    kind = models.CharField(max_length=32, choices=AuditKind)
    actor_id = models.BigIntegerField(null=True)
    actor_name = models.CharField(max_length=150)
    run_id = models.UUIDField(null=True, db_index=True)
    subject = models.CharField(max_length=255, blank=True)
    detail = models.JSONField(default=dict)

    objects = _Kept.as_manager()

    class Meta:
        ordering = ["-id"]
        verbose_name_plural = "audit entries"

    def __str__(self) -> str:
        return f"{self.actor_name}: {self.get_kind_display()} {self.subject}".strip()

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise AppendOnly(str(self.pk))
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        raise AppendOnly(str(self.pk))
