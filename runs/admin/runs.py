"""Admin of runs, trials, endpoints, profiles and the audit log: read-only, with the actions that pages have."""

from itertools import product
from typing import Any

from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from runs.admin.forms import EndpointForm, ProfileForm
from runs.admin.read_only import LeftoverFilter, ReadOnly, known
from runs.documents.spending import Budgets, Prices, RateLimits
from runs.models import AuditEntry, Endpoint, EndpointTest, OwnedResource, Profile, Run, Trial, Worker
from runs.outcomes.codes import FailureClass
from runs.ownership.document import Outcome, Role
from runs.services import access, endpoint_testing, lifecycle, registry
from runs.services.cleaning import request_cleanup
from runs.services.refusals import Refusal

admin.site.site_header = "benchsite"
admin.site.site_title = "benchsite admin"
admin.site.index_title = "Records, reviews and audit"
admin.site.empty_value_display = "none"


@admin.register(Run)
class RunAdmin(ReadOnly):
    list_display = ("short", "page", "profile_name", "endpoint_name", "result", "cleanup", "by", "created_at")
    list_filter = ("state", "verdict", "cleanup", "worker", "created_at")
    search_fields = ("=id", "spec_sha256", "created_by_name")
    list_select_related = ("profile", "endpoint")
    actions = ("cancel", "retry_cleanup")

    def get_exclude(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """What is private is shown to those who read private evidence."""
        own = ("lease_pid", "lease_start_ticks", "lease_boot_id")
        return own if access.may(request.user, access.READ_PRIVATE) else (*own, "failure_detail", "spec")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Run]:
        return super().get_queryset(request).defer("spec", "failure_detail")

    def view_on_site(self, run: Run) -> str:
        return reverse("run", args=[run.key])

    @admin.display(description="run", ordering="id")
    def short(self, run: Run) -> str:
        return run.short

    @admin.display(description="page")
    def page(self, run: Run) -> SafeString:
        return format_html('<a href="{}">open</a>', reverse("run", args=[run.key]))

    @admin.display(description="profile", ordering="profile__name")
    def profile_name(self, run: Run) -> str:
        return run.profile.name

    @admin.display(description="endpoint", ordering="endpoint__name")
    def endpoint_name(self, run: Run) -> str:
        return run.endpoint.name

    @admin.display(description="result", ordering="verdict")
    def result(self, run: Run) -> str:
        """The verdict, or as long as there is none how far it is."""
        return run.get_verdict_display() if run.verdict else run.get_state_display()

    @admin.display(description="by", ordering="created_by_name")
    def by(self, run: Run) -> str:
        return run.created_by_name

    @admin.action(description="Cancel the selected runs", permissions=["cancel"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Run]) -> None:
        access.require(request.user, access.CANCEL)
        outcomes = [lifecycle.request_cancel(run.pk, user=request.user) for run in queryset]
        asked = sum(outcome in ("cancelled", "requested") for outcome in outcomes)
        self.message_user(
            request, f"{asked} being cancelled; {len(outcomes) - asked} had ended or were requested before."
        )

    @admin.action(description="Retry cleanup of the selected runs", permissions=["clean"])
    def retry_cleanup(self, request: HttpRequest, queryset: QuerySet[Run]) -> None:
        _ask_for_cleanups(request, queryset)


def _ask_for_cleanups(request: HttpRequest, runs: QuerySet[Run]) -> None:
    """Ask for a cleanup of each run, and say of each what came of it."""
    for run in runs.select_related("worker"):
        try:
            asked = request_cleanup(user=request.user, run=run)
        except Refusal as error:
            messages.warning(request, f"{run}: {error.sentence}")
        else:
            messages.info(request, f"{run}: {'cleanup requested' if asked else 'already clean'}.")


@admin.register(Trial)
class TrialAdmin(ReadOnly):
    list_display = ("run", "ordinal", "task_name", "bucket", "failure_code", "started_at")
    list_filter = ("bucket", known("failure_class", [found for found in FailureClass if found]))
    search_fields = ("=run__id", "task_name", "failure_code")
    list_select_related = ("run",)
    ordering = ("-id",)

    def view_on_site(self, trial: Trial) -> str:
        return reverse("trial", args=[trial.run.key, trial.ordinal])


@admin.register(OwnedResource)
class OwnedResourceAdmin(ReadOnly):
    list_display = ("run", "role", "kind", "trial", "short_id", "stage", "outcome", "attempts", "updated_at")
    list_filter = (LeftoverFilter, known("role", Role), known("outcome", Outcome))
    search_fields = ("=run__id", "resource_id")
    list_select_related = ("run",)
    ordering = ("-id",)
    actions = ("retry_cleanup",)

    @admin.action(description="Retry cleanup of the runs that own the selected resources", permissions=["clean"])
    def retry_cleanup(self, request: HttpRequest, queryset: QuerySet[OwnedResource]) -> None:
        """A cleanup is a run's: it removes everything of it that is left, once, however many of it were selected."""
        _ask_for_cleanups(request, Run.objects.filter(pk__in=queryset.values("run")))

    @admin.display(description="resource id", ordering="resource_id")
    def short_id(self, resource: OwnedResource) -> str:
        return resource.resource_id[:12]

    def view_on_site(self, resource: OwnedResource) -> str:
        return reverse("run", args=[resource.run.key]) + "#owned"

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return access.may(request.user, access.READ_PRIVATE) and super().has_view_permission(request, obj)


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnly):
    list_display = ("at", "who", "kind", "subject", "run")
    list_filter = ("kind", "at")
    search_fields = ("actor_name", "subject", "=run_id")

    @admin.display(description="who", ordering="actor_name")
    def who(self, entry: AuditEntry) -> str:
        return entry.actor_name

    @admin.display(description="run", ordering="run_id")
    def run(self, entry: AuditEntry) -> SafeString | str:
        if entry.run_id is None:
            return "none"
        return format_html('<a href="{}">{}</a>', reverse("run", args=[entry.run_id.hex]), entry.run_id.hex[:8])


_BUDGETS = (
    "Tokens of input and output together; money by the prices. Once one is used up, the next request is refused. "
    "Days (UTC) and all runs count over every run with this endpoint's name."
)
_RECORD = [
    "name", "base_url", "model", "served_models", "route", "private_addresses", "ca_file", "credential_kind",
    "credential_name", "headers", "request_timeout_s", "scripted",
]  # fmt: skip


@admin.register(Endpoint)
class EndpointAdmin(ReadOnly):
    list_display = ("name", "version", "model", "base_url", "route", "active", "scripted", "created_at")
    list_filter = ("active", "route", "scripted")
    search_fields = ("name", "model", "host")
    actions = ("test_connection", "retire")
    form = EndpointForm

    def view_on_site(self, endpoint: Endpoint) -> str:
        return reverse("endpoint", args=[endpoint.name, endpoint.version])

    def has_add_permission(self, request: HttpRequest) -> bool:
        return access.may(request.user, access.REGISTER_ENDPOINT)

    def get_fieldsets(self, request: HttpRequest, obj: Endpoint | None = None) -> Any:
        if obj is not None:
            return [(None, {"fields": self.get_fields(request, obj)})]
        return [
            (None, {"fields": _RECORD}),
            (
                "Prices",
                {
                    "description": "For a million tokens, such as 2.50.",
                    "fields": [f"price_{name}" for name in Prices.model_fields],
                },
            ),
            (
                "Limits",
                {
                    "description": "Of each run. A request that comes too soon waits.",
                    "fields": [*RateLimits.model_fields],
                },
            ),
            (
                "Budgets",
                {
                    "description": _BUDGETS,
                    "fields": [(f"{scope}_tokens", f"{scope}_money") for scope in Budgets.model_fields],
                },
            ),
        ]

    def get_fields(self, request: HttpRequest, obj: Endpoint | None = None) -> Any:
        own = _RECORD
        shown = ["name", "version", "base_url", "model", "route", "record", "record_sha256", "active", "created_at"]
        return own if obj is None else [name for name in shown if name not in (self.get_exclude(request) or ())]

    def get_exclude(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...] | None:
        """The record says where the credential is held."""
        return None if access.may(request.user, access.READ_PRIVATE) else ("record",)

    def save_model(self, request: HttpRequest, obj: Endpoint, form: Any, change: bool) -> None:
        saved = registry.register_endpoint(form.cleaned_data["record"], user=request.user)
        obj.pk, obj.version = saved.pk, saved.version

    def has_test_permission(self, request: HttpRequest) -> bool:
        return endpoint_testing.may_test(request.user)

    @admin.action(
        description="Test the connection of the selected endpoints, from every running worker", permissions=["test"]
    )
    def test_connection(self, request: HttpRequest, queryset: QuerySet[Endpoint]) -> None:
        """Each worker makes it as soon as it can; the endpoint's page shows what came of it."""
        workers = [worker for worker in Worker.objects.all() if worker.alive]
        if not workers:
            self.message_user(request, "No worker is running, so nothing can be tested.", messages.WARNING)
        for endpoint, worker in product(queryset, workers):
            try:
                _, new = endpoint_testing.request_test(user=request.user, endpoint=endpoint, worker=worker)
            except Refusal as error:
                self.message_user(request, f"{endpoint}: {error.sentence}", messages.WARNING)
            else:
                said = "test requested" if new else "already being tested"
                self.message_user(request, f"{endpoint}: {said} from {worker}.")

    @admin.action(description="Retire the selected endpoints", permissions=["add"])
    def retire(self, request: HttpRequest, queryset: QuerySet[Endpoint]) -> None:
        access.require(request.user, access.REGISTER_ENDPOINT)
        hits = [registry.retire_endpoint(endpoint, user=request.user) for endpoint in queryset]
        self.message_user(request, f"{sum(hits)} retired; past runs keep their records.")


@admin.register(EndpointTest)
class EndpointTestAdmin(ReadOnly):
    list_display = ("requested_at", "endpoint", "worker", "state", "outcome", "failure_code", "requested_by_name")
    list_filter = ("outcome", "worker")
    search_fields = ("endpoint__name", "failure_code")
    list_select_related = ("endpoint", "worker")

    def view_on_site(self, test: EndpointTest) -> str:
        return reverse("endpoint", args=[test.endpoint.name, test.endpoint.version]) + "#connection"


@admin.register(Profile)
class ProfileAdmin(ReadOnly):
    list_display = ("name", "schema", "startable", "content_sha256", "created_at")
    list_filter = ("schema", "startable")
    search_fields = ("name", "content_sha256")
    exclude = ("source",)
    form = ProfileForm

    def view_on_site(self, profile: Profile) -> str:
        return reverse("profile", args=[profile.pk])

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("runs.add_profile"))

    def get_fields(self, request: HttpRequest, obj: Profile | None = None) -> Any:
        shown = ["name", "schema", "description", "document", "content_sha256", "file_sha256", "startable"]
        return ["file"] if obj is None else shown

    def save_model(self, request: HttpRequest, obj: Profile, form: Any, change: bool) -> None:
        stored = registry.store_profile(form.cleaned_data["file"], user=request.user)
        obj.pk, obj.name = stored.pk, stored.name
