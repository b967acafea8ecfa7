"""The rows of evidence: the register of runs, and experiments."""

from evidence.models.experiments import (
    Case,
    Experiment,
    ExperimentFile,
    ExperimentResult,
    ExperimentState,
    ExperimentTrial,
    JobImport,
    RevisionCase,
    Score,
    Suite,
    SuiteRevision,
)
from evidence.models.register import (
    READABLE,
    Artifact,
    ArtifactState,
    LegalHold,
    RunStatement,
    SigningKey,
    StatementReason,
    new_key,
)

__all__ = [
    "READABLE",
    "Artifact",
    "ArtifactState",
    "Case",
    "Experiment",
    "ExperimentFile",
    "ExperimentResult",
    "ExperimentState",
    "ExperimentTrial",
    "JobImport",
    "LegalHold",
    "RevisionCase",
    "RunStatement",
    "Score",
    "SigningKey",
    "StatementReason",
    "Suite",
    "SuiteRevision",
    "new_key",
]
