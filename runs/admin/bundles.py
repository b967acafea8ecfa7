"""Task bundles in the admin: what staff see, and approving and retiring as on a bundle's page."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from runs.admin.read_only import ReadOnly
from runs.models import TaskBundle
from runs.services import access, reviewing
from runs.services.refusals import Refusal
from runs.web.presenting.bundles import changes, files_words


@admin.register(TaskBundle)
class TaskBundleAdmin(ReadOnly):
    list_display = ("name", "revision", "page", "status", "by", "reviewer", "reviewed_at")
    list_filter = ("status", "name")
    search_fields = ("name", "manifest_sha256")
    actions = ("review", "retire")
    fields = (
        "name", "revision", "status", "changed", "manifest_sha256", "files", "created_by_name", "created_at",
        "certified_at", "reviewed_by_name", "reviewed_at", "review_note", "retired_by_name", "retired_at",
        "certification", "manifest",
    )  # fmt: skip
    readonly_fields = ("changed", "files")

    @admin.display(description="imported by", ordering="created_by_name")
    def by(self, bundle: TaskBundle) -> str:
        return bundle.created_by_name or "the system"

    @admin.display(description="reviewed by", ordering="reviewed_by_name", empty_value="not reviewed")
    def reviewer(self, bundle: TaskBundle) -> str | None:
        return bundle.reviewed_by_name or None

    @admin.display(description="page")
    def page(self, bundle: TaskBundle) -> SafeString:
        return format_html('<a href="{}">view</a>', self.view_on_site(bundle))

    def view_on_site(self, bundle: TaskBundle) -> str:
        return reverse("bundle", args=[bundle.name, bundle.revision])

    @admin.display(description="changed since the reviewed revision")
    def changed(self, bundle: TaskBundle) -> SafeString | str:
        """Every place where the manifest differs from the one that was reviewed before it."""
        before = reviewing.reviewed_before(bundle)
        if before is None:
            return "no earlier revision was reviewed"
        found = changes(before.manifest, bundle.manifest)
        rows = [(change.path, change.old or "absent", change.new or "absent") for change in found]
        lines = format_html_join("", '<tr><th scope="row">{}</th><td>{}</td><td>{}</td></tr>', rows)
        heads = format_html_join(
            "", '<th scope="col">{}</th>', [("Field",), (f"Revision {before.revision}",), ("This revision",)]
        )
        return format_html("<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>", heads, lines)

    @admin.display(description="files")
    def files(self, bundle: TaskBundle) -> str:
        return files_words(bundle)

    def has_review_permission(self, request: HttpRequest) -> bool:
        return access.may(request.user, access.REVIEW_BUNDLE)

    @admin.action(description="Approve the selected revisions", permissions=["review"])
    def review(self, request: HttpRequest, queryset: QuerySet[TaskBundle]) -> None:
        self._act_on_each(request, queryset, "reviewed", lambda one: reviewing.review(one, user=request.user))

    @admin.action(description="Retire the selected revisions", permissions=["review"])
    def retire(self, request: HttpRequest, queryset: QuerySet[TaskBundle]) -> None:
        self._act_on_each(request, queryset, "retired", lambda one: reviewing.retire(one, user=request.user))

    def _act_on_each(self, request: HttpRequest, queryset: QuerySet[TaskBundle], word: str, act: Any) -> None:
        access.require(request.user, access.REVIEW_BUNDLE)
        for bundle in queryset.order_by("name", "revision"):
            try:
                act(bundle)
            except Refusal as error:
                self.message_user(request, f"{bundle}: {error.sentence}", messages.WARNING)
            else:
                self.message_user(request, f"{bundle} is {word}.")
