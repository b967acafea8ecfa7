"""Admin of workers, previews and locks; its actions lead to the pages that show their effects."""

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone

from runs.admin.read_only import ReadOnly
from runs.models import HarnessLock, ImageLock, Preview, Worker
from runs.services import access
from runs.services.workers import condition


@admin.register(Worker)
class WorkerAdmin(ReadOnly):
    list_display = ("name", "host", "condition", "reported_at", "heartbeat_at", "lost_declared_at")
    search_fields = ("name", "host")
    actions = ("declare_lost", "remove")

    def view_on_site(self, worker: Worker) -> str:
        return reverse("worker", args=[worker.name])

    @admin.display(description="condition")
    def condition(self, worker: Worker) -> str:
        return condition(worker, timezone.now()).word

    def has_declare_permission(self, request: HttpRequest) -> bool:
        return access.may(request.user, access.DECLARE_HOST_LOST)

    def has_remove_permission(self, request: HttpRequest) -> bool:
        return access.may(request.user, access.REMOVE_WORKER)

    @admin.action(description="Declare the selected worker's host lost…", permissions=["declare"])
    def declare_lost(self, request: HttpRequest, queryset: QuerySet[Worker]) -> HttpResponse | None:
        return self._redirect(request, queryset, "worker_lost")

    @admin.action(description="Remove the selected worker that never had a run…", permissions=["remove"])
    def remove(self, request: HttpRequest, queryset: QuerySet[Worker]) -> HttpResponse | None:
        return self._redirect(request, queryset, "worker_remove")

    def _redirect(self, request: HttpRequest, queryset: QuerySet[Worker], page: str) -> HttpResponse | None:
        """Redirect to the page that shows the effects; nothing is done here."""
        if queryset.count() != 1:
            self.message_user(request, "Select one worker at a time: its effects are shown first.", messages.WARNING)
            return None
        return redirect(page, name=queryset.get().name)


@admin.register(Preview)
class PreviewAdmin(ReadOnly):
    list_display = ("created_at", "user", "profile", "endpoint", "worker", "spec_sha256", "expires_at", "consumed_by")
    list_select_related = ("user", "profile", "endpoint", "worker", "consumed_by")
    search_fields = ("spec_sha256",)


@admin.register(HarnessLock, ImageLock)
class LockAdmin(ReadOnly):
    list_display = ("__str__", "worker", "current", "created_at")
    list_filter = ("current", "worker")
    list_select_related = ("worker",)
