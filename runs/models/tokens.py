"""Tokens of the HTTP API: what a program shows instead of a person signing in."""

import secrets

from django.conf import settings
from django.db import models
from django.db.models import Q


def new_token_key() -> str:
    """A token's public id, by which people name it."""
    return secrets.token_hex(6)


class ApiToken(models.Model):
    """One token of one person. What it says is shown once; ``digest`` is the SHA-256 of that text.

    It is 256 random bits, which no guess finds, so a slow hash would only slow down each request. A token may never do
    more than its person may at that moment, and of that only what its scopes say.
    """

    key = models.CharField(max_length=12, unique=True, default=new_token_key, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="api_tokens")
    name = models.CharField(max_length=100, help_text="What it is for")
    digest = models.CharField(max_length=64, unique=True, editable=False)
    may_read = models.BooleanField(default=False)
    may_publish = models.BooleanField(default=False)
    may_run = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)
    created_by_name = models.CharField(max_length=150)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True, help_text="To the minute")
    revoked_at = models.DateTimeField(null=True, blank=True)
    revoked_by_name = models.CharField(max_length=150, blank=True)

    class Meta:
        ordering = ["-created_at", "-id"]
        verbose_name = "API token"
        constraints = [
            models.CheckConstraint(
                condition=Q(may_read=True) | Q(may_publish=True) | Q(may_run=True), name="api_token_has_a_scope"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.key})"

    @property
    def scopes(self) -> list[str]:
        """The names of its scopes, in their order."""
        return [scope for scope in ("read", "publish", "run") if getattr(self, f"may_{scope}")]
