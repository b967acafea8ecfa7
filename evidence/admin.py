"""Admin of the evidence register: names, states and hashes; never the bytes."""

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest
from django.urls import reverse

from evidence.models import Artifact, SigningKey
from evidence.register.kinds import TITLES
from runs.admin.read_only import ReadOnly, known
from runs.services import access


@admin.register(Artifact)
class ArtifactAdmin(ReadOnly):
    list_display = ("path", "run", "trial", "kind", "state", "public", "size", "redactions", "updated_at")
    list_filter = ("state", known("kind", TITLES), "public")
    search_fields = ("=run__id", "path", "sha256")
    list_select_related = ("run",)
    exclude = ("stored", "key")
    ordering = ("-id",)

    def view_on_site(self, artifact: Artifact) -> str:
        return reverse("evidence", args=[artifact.run.key])

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return access.may(request.user, access.READ_PRIVATE)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return access.may(request.user, access.READ_PRIVATE)


@admin.register(SigningKey)
class SigningKeyAdmin(ReadOnly):
    """Public halves; keys are made and ended by `manage.py signing_key`, on the host that holds the private one."""

    list_display = ("key_id", "role", "name", "not_before", "not_after", "retired_at", "revoked_at", "made_by_name")
    list_filter = ("role",)
    search_fields = ("key_id", "name")

    def view_on_site(self, key: SigningKey) -> str:
        return reverse("signing_keys")

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return access.may(request.user, access.VIEW)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return access.may(request.user, access.VIEW)
