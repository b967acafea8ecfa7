"""Experiments: suites with their cases and revisions, and the trials of one candidate on one dataset.

What a trial amounts to lies in columns of its own and is no bucket: `reported_outcome` says what somebody else's
Harbor said, `observed_outcome` what a worker here saw. Nothing turns one into the other, or into a bucket.
"""

from django.conf import settings
from django.db import models
from django.db.models import Q

from evidence.imports.outcomes import TRUST_OF_SOURCE, ObservedOutcome, ReportedOutcome, Source, Trust
from evidence.models.register import READABLE, ArtifactState, new_key

_LARGEST = 1.7976931348623157e308


def _choices(
    words: type[Source] | type[Trust] | type[ReportedOutcome] | type[ObservedOutcome],
) -> list[tuple[str, str]]:
    return [(word.value, word.value.replace("_", " ")) for word in words]


def _trust_of_source() -> Q:
    rule = Q()
    for source, trust in TRUST_OF_SOURCE.items():
        rule |= Q(source=source.value, trust=trust.value)
    return rule


class Suite(models.Model):
    """A named collection of cases; ``suite_id`` is unique on the site."""

    suite_id = models.CharField(max_length=255, unique=True)
    name = models.CharField(max_length=255)
    created_at = models.DateTimeField(auto_now_add=True)
    created_by_name = models.CharField(max_length=150, blank=True)

    class Meta:
        ordering = ["name", "suite_id"]

    def __str__(self) -> str:
        return self.name


class Case(models.Model):
    """One task of a suite. ``case_id`` is made of suite id, source and task name; what it holds is a revision's."""

    suite = models.ForeignKey(Suite, on_delete=models.PROTECT, related_name="cases")
    case_id = models.CharField(max_length=64)
    source = models.CharField(max_length=255, blank=True, help_text="The dataset as Harbor names it")
    name = models.CharField(max_length=255)

    class Meta:
        ordering = ["name", "case_id"]
        constraints = [models.UniqueConstraint(fields=["suite", "case_id"], name="case_once")]

    def __str__(self) -> str:
        return self.name


class SuiteRevision(models.Model):
    """An immutable checkpoint of a suite: which cases it has, in which digests. Numbers go from 1 without gaps."""

    suite = models.ForeignKey(Suite, on_delete=models.PROTECT, related_name="revisions")
    number = models.PositiveIntegerField()
    checkpoint_id = models.CharField(max_length=64, db_index=True)
    mode = models.CharField(max_length=8, choices=[("subset", "subset"), ("replace", "replace")])
    case_count = models.PositiveIntegerField(help_text="As many cases belong to it, and no more are ever added")
    created_at = models.DateTimeField(auto_now_add=True)
    created_by_name = models.CharField(max_length=150, blank=True)

    class Meta:
        ordering = ["suite", "-number"]
        constraints = [
            models.UniqueConstraint(fields=["suite", "number"], name="suite_revision_once"),
            models.CheckConstraint(condition=Q(number__gte=1), name="suite_revision_from_1"),
            models.CheckConstraint(condition=Q(mode__in=["subset", "replace"]), name="suite_revision_mode"),
        ]

    def __str__(self) -> str:
        return f"{self.suite} revision {self.number}"


class RevisionCase(models.Model):
    """One case of one revision. ``checksum`` is Harbor's, ``content_sha256`` of the files where they were seen."""

    revision = models.ForeignKey(SuiteRevision, on_delete=models.PROTECT, related_name="cases")
    case = models.ForeignKey(Case, on_delete=models.PROTECT, related_name="revisions")
    checksum = models.CharField(max_length=255)
    content_sha256 = models.CharField(max_length=64, blank=True)

    class Meta:
        ordering = ["revision", "case"]
        constraints = [models.UniqueConstraint(fields=["revision", "case"], name="revision_case_once")]

    def __str__(self) -> str:
        return f"{self.case} in {self.revision}"


class JobImport(models.Model):
    """Somebody handed in a finished job: who, when, which, and what Harbor wrote it. ``job_name`` is its folder's."""

    job_id = models.CharField(max_length=64)
    job_name = models.CharField(max_length=255)
    harbor_version = models.CharField(max_length=64, blank=True, help_text="Empty where the job does not say")
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_by_name = models.CharField(max_length=150)
    warnings = models.JSONField(default=list, blank=True)

    class Meta:
        ordering = ["-created_at", "-id"]

    def __str__(self) -> str:
        return f"import of {self.job_name}"


class ExperimentState(models.TextChoices):
    OPEN = "open", "Open"
    FINALIZED = "finalized", "Finalized"


class ExperimentResult(models.TextChoices):
    """How an experiment was finalized. ``failed`` is no grade: some trial was not graded."""

    COMPLETED = "completed", "Finalized"
    FAILED = "failed", "Finalized with errors"


class Experiment(models.Model):
    """The trials of one candidate on one dataset. Finalized is for ever.

    The candidate is agent name, model provider and model name; the agent's version is an attribute, because a trial
    whose set-up failed has none. ``requested`` counts the trials that were asked for, whether or not they are known;
    ``error`` names five trials that were not graded. ``overrides`` are the job's time-out multipliers and resources,
    with which two experiments have to agree before a test compares them. ``details`` are for its page.
    """

    key = models.CharField(max_length=32, unique=True, default=new_key, editable=False)
    experiment_id = models.CharField(max_length=255, unique=True)
    name = models.CharField(max_length=255)
    source = models.CharField(max_length=16, choices=_choices(Source))
    trust = models.CharField(max_length=16, choices=_choices(Trust))
    suite = models.ForeignKey(Suite, on_delete=models.PROTECT, related_name="experiments")
    revision = models.ForeignKey(
        SuiteRevision, on_delete=models.PROTECT, null=True, blank=True, related_name="experiments"
    )
    checkpoint_id = models.CharField(max_length=64, help_text="Of the cases and checksums that its trials ran")
    dataset = models.CharField(max_length=255, blank=True, help_text="As Harbor names it; empty for single tasks")
    agent_name = models.CharField(max_length=255)
    agent_version = models.CharField(max_length=255, blank=True)
    model_provider = models.CharField(max_length=255, blank=True)
    model_name = models.CharField(max_length=255, blank=True)
    harbor_version = models.CharField(max_length=64, blank=True)
    job_import = models.ForeignKey(
        JobImport, on_delete=models.PROTECT, null=True, blank=True, related_name="experiments"
    )
    job_id = models.CharField(max_length=64, blank=True)
    main_reward = models.CharField(max_length=255, default="reward")
    pass_threshold = models.FloatField(default=1.0)
    requested = models.PositiveIntegerField(default=0)
    retries = models.PositiveIntegerField(null=True, blank=True, help_text="Of the whole job; empty: not reported")
    overrides = models.JSONField(default=dict, blank=True)
    details = models.JSONField(default=dict, blank=True)
    state = models.CharField(max_length=16, choices=ExperimentState, default=ExperimentState.OPEN)
    result = models.CharField(max_length=16, choices=ExperimentResult, null=True, blank=True)
    error = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_by_name = models.CharField(max_length=150, blank=True)
    finalized_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            models.CheckConstraint(condition=_trust_of_source(), name="experiment_trust_of_source"),
            models.CheckConstraint(
                condition=Q(state="open", result__isnull=True, finalized_at__isnull=True)
                | Q(state="finalized", result__in=["completed", "failed"], finalized_at__isnull=False),
                name="experiment_result_when_finalized",
            ),
            models.CheckConstraint(
                condition=Q(pass_threshold__gte=-_LARGEST, pass_threshold__lte=_LARGEST),
                name="experiment_threshold_finite",
            ),
        ]
        indexes = [
            models.Index(fields=["suite", "-created_at"], name="experiment_by_suite"),
            models.Index(fields=["agent_name", "model_provider", "model_name"], name="experiment_by_candidate"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def candidate(self) -> str:
        """For people: the agent, and its model as Harbor is told it."""
        model = "/".join(part for part in (self.model_provider, self.model_name) if part)
        return f"{self.agent_name} · {model}" if model else self.agent_name


class ExperimentTrial(models.Model):
    """One attempt at one case. ``trust`` and ``source`` are its experiment's, so that no query shows a number alone.

    A trial that goes on has no outcome yet. Numbers are null where they were not reported, and never 0 for that.
    Times are null where they were written without a zone; ``details`` has them as they were written, with the badges,
    the trial's steps and its problems. ``regraded``: no agent ran, and the tokens are another trial's.
    """

    experiment = models.ForeignKey(Experiment, on_delete=models.PROTECT, related_name="trials")
    source = models.CharField(max_length=16, choices=_choices(Source))
    trust = models.CharField(max_length=16, choices=_choices(Trust))
    trial_name = models.CharField(max_length=255)
    case = models.ForeignKey(Case, on_delete=models.PROTECT, related_name="trials")
    checksum = models.CharField(max_length=255, blank=True, help_text="Of the task that ran, by Harbor")
    attempt = models.PositiveIntegerField(help_text="For display only")
    reported_outcome = models.CharField(max_length=16, choices=_choices(ReportedOutcome), null=True, blank=True)
    observed_outcome = models.CharField(max_length=16, choices=_choices(ObservedOutcome), null=True, blank=True)
    error_type = models.CharField(max_length=255, blank=True)
    error = models.TextField(blank=True)
    agent_error = models.CharField(max_length=255, blank=True, help_text="An exception that voids no grade")
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    duration_ms = models.PositiveBigIntegerField(null=True, blank=True)
    input_tokens = models.PositiveBigIntegerField(null=True, blank=True)
    cache_tokens = models.PositiveBigIntegerField(null=True, blank=True)
    output_tokens = models.PositiveBigIntegerField(null=True, blank=True)
    cost_usd = models.FloatField(null=True, blank=True)
    usage_source = models.CharField(max_length=16, blank=True)
    regraded = models.BooleanField(default=False)
    agent_version = models.CharField(max_length=255, blank=True)
    conversation_id = models.CharField(max_length=255, blank=True)
    badges = models.JSONField(default=list, blank=True)
    details = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["experiment", "case", "attempt", "id"]
        constraints = [
            models.UniqueConstraint(fields=["experiment", "trial_name"], name="experiment_trial_once"),
            models.CheckConstraint(condition=_trust_of_source(), name="experiment_trial_trust_of_source"),
            models.CheckConstraint(
                condition=Q(reported_outcome__isnull=True)
                | Q(trust="reported", reported_outcome__in=[word.value for word in ReportedOutcome]),
                name="experiment_trial_reported",
            ),
            models.CheckConstraint(
                condition=Q(observed_outcome__isnull=True)
                | Q(trust="observed", observed_outcome__in=[word.value for word in ObservedOutcome]),
                name="experiment_trial_observed",
            ),
            models.CheckConstraint(
                condition=Q(cost_usd__isnull=True) | Q(cost_usd__gte=0, cost_usd__lte=_LARGEST),
                name="experiment_trial_cost_finite",
            ),
            models.CheckConstraint(condition=Q(attempt__gte=1), name="experiment_trial_attempt_from_1"),
        ]
        indexes = [
            models.Index(fields=["case", "experiment"], name="experiment_trial_by_case"),
            models.Index(fields=["experiment", "reported_outcome"], name="experiment_trial_by_outcome"),
        ]

    def __str__(self) -> str:
        return self.trial_name

    @property
    def outcome(self) -> str | None:
        """The one word for it, whoever says it; ``trust`` tells whose."""
        return self.reported_outcome or self.observed_outcome


class Score(models.Model):
    """One reward of a trial. Exactly one is the main reward; ``passed`` is told of that alone, and only when it counts.

    ``evaluator`` is ``harbor.<name>``, in the version of the task's checksum.
    """

    trial = models.ForeignKey(ExperimentTrial, on_delete=models.PROTECT, related_name="scores")
    name = models.CharField(max_length=1024)
    number = models.FloatField()
    evaluator = models.CharField(max_length=1031)
    evaluator_version = models.CharField(max_length=255, blank=True)
    main = models.BooleanField(default=False)
    passed = models.BooleanField(null=True, blank=True)

    class Meta:
        ordering = ["trial", "-main", "name"]
        constraints = [
            models.UniqueConstraint(fields=["trial", "name"], name="score_once"),
            models.UniqueConstraint(fields=["trial"], condition=Q(main=True), name="score_one_main"),
            models.CheckConstraint(condition=Q(main=True) | Q(passed__isnull=True), name="score_diagnostic_passes_not"),
            models.CheckConstraint(condition=Q(number__gte=-_LARGEST, number__lte=_LARGEST), name="score_finite"),
        ]

    def __str__(self) -> str:
        return f"{self.name} = {self.number:g}"


class ExperimentFile(models.Model):
    """One file that was handed in with a trial, or with a job when ``trial`` is null. It is always private.

    ``path`` is relative to the trial's folder, or to the job's, and printable. Names and states are those of the
    register of runs (``Artifact``).
    """

    key = models.CharField(max_length=32, unique=True, default=new_key, editable=False)
    experiment = models.ForeignKey(Experiment, on_delete=models.PROTECT, related_name="files")
    trial = models.ForeignKey(ExperimentTrial, on_delete=models.PROTECT, null=True, blank=True, related_name="files")
    path = models.CharField(max_length=1024)
    state = models.CharField(max_length=16, choices=ArtifactState)
    size = models.PositiveBigIntegerField(default=0)
    sha256 = models.CharField(max_length=64, blank=True)
    note = models.CharField(max_length=200, blank=True)
    stored = models.CharField(max_length=255, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["experiment", "trial", "path"]
        constraints = [
            models.UniqueConstraint(fields=["trial", "path"], name="experiment_file_once"),
            models.UniqueConstraint(
                fields=["experiment", "path"], condition=Q(trial__isnull=True), name="experiment_job_file_once"
            ),
            models.CheckConstraint(
                condition=~Q(state__in=[state.value for state in READABLE]) | (~Q(sha256="") & ~Q(stored="")),
                name="experiment_file_readable_is_stored",
            ),
        ]

    def __str__(self) -> str:
        return self.path

    @property
    def readable(self) -> bool:
        return self.state in READABLE
