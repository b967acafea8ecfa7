"""Makes previews: resolves and checks exactly what a run would execute, and starts nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from benchsite.lib.problems import DocumentError, Problem
from runs.documents.run_spec import Spec
from runs.documents.specs import resolve_spec
from runs.models import AuditKind, Endpoint, Preview, Profile, TaskBundle, Worker
from runs.services import access, audit, registry, reviewing, workers
from runs.services.access import AnyUser
from runs.services.preview_checks import Check, checks_of
from runs.services.refusals import BadInput

EXPIRES_AFTER = timedelta(minutes=15)
_INPUT_PATHS = ("tasks", "max_trial_seconds", "max_steps")


@dataclass(frozen=True, slots=True)
class Choice:
    """What a person chose: rows, and how the run is narrower than its profile (``None``: as the profile says)."""

    profile: Profile
    bundle: TaskBundle
    endpoint: Endpoint
    worker: Worker
    tasks: Sequence[str] | None = None
    max_trial_seconds: int | None = None
    max_steps: int | None = None

    def as_request(self) -> dict[str, object]:
        """How the narrowing is stored in a preview."""
        tasks = None if self.tasks is None else list(self.tasks)
        return {"tasks": tasks, "max_trial_seconds": self.max_trial_seconds, "max_steps": self.max_steps}


def make_preview(*, user: AnyUser, choice: Choice) -> Preview:
    """Resolve and check a run, and store what is shown. Expires after 15 minutes; starts nothing.

    Raises ``BadInput`` for what only the person can mend (an unknown task, a limit wider than the profile, a
    profile whose suites do not run here). Whatever else is missing becomes a blocking check; a preview
    without a spec (``spec_sha256`` empty) can be shown but not confirmed. Raises ``PermissionDenied``.
    """
    person = access.require(user, access.START)
    spec, checks = resolve(choice)
    with transaction.atomic():
        preview = Preview.objects.create(
            user=person,
            profile=choice.profile,
            bundle=choice.bundle,
            endpoint=choice.endpoint,
            worker=choice.worker,
            request=choice.as_request(),
            spec="" if spec is None else spec.text,
            spec_sha256="" if spec is None else spec.spec_sha256,
            checks=checks,
            capability_sha256=choice.worker.capability_sha256,
            expires_at=timezone.now() + EXPIRES_AFTER,
        )
        detail = {"preview": preview.id.hex, "spec_sha256": preview.spec_sha256, "worker": choice.worker.name}
        audit.record(AuditKind.PREVIEW, user=user, subject=choice.profile.name, detail=detail)
    return preview


def resolve(choice: Choice) -> tuple[Spec | None, list[Check]]:
    """The spec of a choice as things stand now, or none, and all checks. Raises ``BadInput``."""
    problems: list[Problem] = []
    spec = None
    try:
        spec = resolve_spec(
            profile=registry.loaded_profile(choice.profile),
            bundle=reviewing.loaded_bundle(choice.bundle),
            harness=workers.harness_of(choice.worker),
            images=workers.images_of(choice.worker),
            worker=workers.worker_identity(choice.worker),
            endpoint=registry.endpoint_version(choice.endpoint),
            tasks=choice.tasks,
            max_trial_seconds=choice.max_trial_seconds,
            max_steps=choice.max_steps,
        )
    except DocumentError as error:
        mine = [
            problem
            for problem in error.problems
            if problem.code == "suite_not_installed" or problem.path.partition("[")[0] in _INPUT_PATHS
        ]
        if mine:
            raise BadInput.from_document(DocumentError(mine), remedy=_known_tasks(choice, mine)) from error
        problems = list(error.problems)
    checks = checks_of(
        profile=choice.profile, bundle=choice.bundle, endpoint=choice.endpoint, worker=choice.worker, problems=problems
    )
    return spec, checks


def _known_tasks(choice: Choice, problems: list[Problem]) -> str:
    if not any(problem.path.startswith("tasks") for problem in problems):
        return ""
    profile = registry.loaded_profile(choice.profile)
    cases = profile.v2.suites.environment.cases if profile.v2 else []
    return f"The profile's tasks: {', '.join(cases)}."
