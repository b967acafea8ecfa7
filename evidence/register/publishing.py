"""Publishing a finished run: the suite result and the provenance, written into the register."""

from collections.abc import Iterable
from typing import Any

from django.db import transaction

from benchsite.lib.canonical import canonical_bytes, canonical_sha256
from evidence.models import Artifact
from evidence.register.ingest import register_document
from evidence.suite.document import suite_document
from evidence.suite.judgement import RunJudgement
from evidence.suite.provenance import observed_worker, provenance_document
from evidence.suite.run_facts import RunFacts
from evidence.trial.document import trial_document
from runs.models import Run, Trial

SUITE_PATH = "evidence/suite.json"
PROVENANCE_PATH = "evidence/provenance.json"


@transaction.atomic
def publish(run: Run, facts: RunFacts, judgement: RunJudgement, *, secrets: Iterable[str] = ()) -> dict[str, Any]:
    """Write each trial's normalized result, the suite result and the provenance of a finished run; returns the
    suite result. Repeatable; the verdict in it is the one that was written once, whatever a later cleanup said.
    """
    trials = []
    for trial, result in zip(facts.trials, judgement.trials, strict=True):
        # The register's entries of one trial: relative paths with hashes.
        document = trial_document(
            trial,
            result,
            tuple(
                {
                    "path": artifact.path,
                    "kind": artifact.kind,
                    "state": artifact.state,
                    "size": artifact.size,
                    "sha256": artifact.sha256 or None,
                }
                for artifact in Artifact.objects.filter(run=run, trial=trial.trial).order_by("path")
            ),
        )
        Trial.objects.filter(run=run, ordinal=trial.trial).update(result=canonical_bytes(document).decode("ascii"))
        trials.append(document)
    observed = observed_worker(facts)
    provenance = provenance_document(facts, observed)
    # Counts only: the ids of what is left are for operators, on the run's page.
    resources = list(run.resources.all())
    left = sum(resource.left for resource in resources)
    suite = suite_document(
        run=facts,
        verdict=judgement.suite,
        trials=trials,
        cleanup={"state": run.cleanup, "found": len(resources), "removed": len(resources) - left, "left": left},
        provenance_sha256=canonical_sha256(provenance),
        observed=observed,
        evidence_root=f"{run.key}/",
    )
    if run.verdict is not None:
        suite["verdict"]["value"] = run.verdict
    secrets = list(secrets)
    register_document(run, PROVENANCE_PATH, provenance, secrets=secrets)
    register_document(run, SUITE_PATH, suite, secrets=secrets)
    return suite


def quarantined(run: Run) -> bool:
    """Whether a known secret was still found in the run's evidence: such a run is shown as quarantined."""
    return Artifact.objects.filter(run=run, state="quarantined").exists()
