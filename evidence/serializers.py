"""Documents about evidence as JSON: one function for each schema that commands and MCP tools return."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime

from benchsite.lib.serializing import UNTRUSTED_NOTICE, Document, serializes, timestamp
from evidence.experiments.importing import JobImported, Planned
from evidence.experiments.listing import counts_of
from evidence.experiments.unproved import unproved
from evidence.imports.outcomes import Source, Trust
from evidence.models import (
    Artifact,
    Experiment,
    ExperimentResult,
    ExperimentTrial,
    LegalHold,
    SigningKey,
    SuiteRevision,
)
from evidence.origin.public_keys import LIST_SCHEMA
from evidence.origin.verifying import SCHEMA as VERIFICATION_SCHEMA
from evidence.origin.verifying import Verification, as_document
from evidence.register.auditing import AuditReport
from evidence.register.export import Export
from evidence.register.keys import key_document
from evidence.register.kinds import TITLES
from evidence.register.retention import Expiry
from evidence.statistics.attempts import PerSolved, Tally, cost_per_solved, solved, tokens_per_solved
from evidence.statistics.comparing import Paired
from evidence.statistics.rates import LEVEL, Interval, pass_rate, passes_of_k
from evidence.suite.judgement import RunJudgement
from evidence.suite.run_facts import RunFacts
from evidence.trial.document import trial_document
from runs.models import Run


@serializes("benchsite.evidence/v1")
def evidence_document(run: Run, files: Iterable[Artifact]) -> Document:
    """The register of a run."""
    return {"run": run.key, "files": [_file(file) for file in files]}


@serializes("benchsite.evidence-file/v1")
def evidence_file_document(file: Artifact, output: str) -> Document:
    """One file, and where it was written to."""
    return {"run": file.run.key, "file": _file(file), "output": output}


@serializes("benchsite.mcp-evidence/v1")
def mcp_evidence_document(run: Run, files: Iterable[Artifact], next_cursor: int | None) -> Document:
    """A part of a run's register, for a reader that must not follow what paths say."""
    listed = [_mcp_file(file) for file in files]
    return {"run": run.key, "files": listed, "next_cursor": next_cursor, "notice": UNTRUSTED_NOTICE}


@serializes("benchsite.mcp-evidence-part/v1")
def mcp_evidence_part_document(file: Artifact, text: str, offset: int, next_offset: int | None) -> Document:
    """A part of a file as text, for a reader that must not follow what it says."""
    return {
        **_mcp_file(file),
        "run": file.run.key,
        "offset": offset,
        "next_offset": next_offset,
        "notice": UNTRUSTED_NOTICE,
        "untrusted_text": text,
    }


@serializes("benchsite.export/v1")
def export_document(run: Run, export: Export) -> Document:
    """An archive that was written."""
    return {"run": run.key, "files": export.files, "bytes": export.size}


@serializes("benchsite.audit/v1")
def audit_document(run: Run, report: AuditReport) -> Document:
    """What differs between a run's register, its rows and its stored files."""
    return {
        "run": run.key,
        "files": report.files,
        "trials": report.trials,
        "clean": report.clean,
        "expired": report.expired,
        "differences": [asdict(difference) for difference in report.differences],
        "unavailable": list(report.unavailable),
    }


@serializes(LIST_SCHEMA)
def public_keys_document(rows: Iterable[SigningKey]) -> Document:
    """Keys that sign, by their public halves: what `verify --key` takes."""
    return {"keys": [key_document(row) for row in rows]}


@serializes(VERIFICATION_SCHEMA)
def verification_document(found: Verification) -> Document:
    """Whether what was given is what was signed."""
    return as_document(found)


@serializes("benchsite.hold/v1")
def hold_document(run: Run, hold: LegalHold | None) -> Document:
    """The legal hold on a run, or that there is none."""
    return {"run": run.key, "held": hold is not None, "reason": None if hold is None else hold.reason}


@serializes("benchsite.expiry/v1")
def expiry_document(
    found: Iterable[Expiry], kept: Mapping[str, int], *, ended_before: datetime, failed: int, applied: bool
) -> Document:
    """What runs lose or would lose; ``kept`` counts the runs that keep everything, by reason."""
    runs = [
        {
            "run": expiry.run.key,
            "ended_at": timestamp(expiry.run.ended_at),
            "files": expiry.files,
            "bytes": expiry.bytes,
            "log_lines": expiry.log_lines,
            "folder": expiry.folder,
        }
        for expiry in found
    ]
    return {"applied": applied, "ended_before": timestamp(ended_before), "failed": failed, **kept, "runs": runs}


@serializes("benchsite.classification/v1")
def classification_document(facts: RunFacts, judgement: RunJudgement, ignored: Iterable[str] = ()) -> Document:
    """What a copied run folder amounts to; ``ignored`` are files in it that no run wrote."""
    suite = judgement.suite
    return {
        "run_id": facts.run_id,
        "spec_sha256": facts.spec_sha256,
        "verdict": suite.verdict.value,
        "sentence": suite.sentence,
        "counts": asdict(suite.counts),
        "ignored": list(ignored),
        "failed_checks": [{"name": check.name, "code": check.code} for check in facts.checks if not check.ok],
        "trials": [trial_document(trial, result) for trial, result in zip(facts.trials, judgement.trials, strict=True)],
    }


def _file(file: Artifact) -> Document:
    """A file; ``id``, ``size`` and ``sha256`` are null when nothing can be read."""
    readable = file.readable
    return {
        "id": file.key if readable else None,
        "trial": file.trial,
        "kind": file.kind,
        "path": file.path,
        "state": file.state,
        "privacy": "public" if file.public else "private",
        "size": file.size if readable else None,
        "source_size": file.source_size,
        "sha256": file.sha256 if readable else None,
        "redactions": file.redactions,
        "note": file.note,
    }


def _mcp_file(file: Artifact) -> Document:
    return {
        "file": file.key,
        "trial": file.trial,
        "kind": file.kind,
        "title": TITLES.get(file.kind, "Other"),
        "untrusted_path": file.path,
        "state": file.state,
        "readable": file.readable,
        "public": file.public,
        "size": file.size,
        "sha256": file.sha256 or None,
        "redactions": file.redactions,
        "note": file.note,
    }


@serializes("benchsite.experiment-statistics/v1")
def experiment_statistics_document(row: Experiment, found: Tally, names: Mapping[str, str]) -> Document:
    """What an experiment's trials amount to; `names` are those of its cases. Null is unknown, and never 0."""
    cases = solved(found)
    rate = pass_rate(found)
    return {
        "experiment_id": row.experiment_id,
        "source": row.source,
        "trust": row.trust,
        "pass_rate": {
            "value": rate.value,
            "interval": _interval(rate.interval),
            "method": rate.method.value,
            "graded": rate.graded,
            "requested": rate.requested,
            "graded_cases": rate.graded_cases,
            "cases": rate.cases,
        },
        "of_attempts": [asdict(of) for of in passes_of_k(found)],
        "cases": {
            kind: sorted(names[case] for case in listed)
            for kind, listed in (
                ("always", cases.always), ("flaky", cases.flaky), ("never", cases.never), ("ungraded", cases.ungraded),
            )
        },
        "cost_per_solved_case": _per_solved(cost_per_solved(found)),
        "tokens_per_solved_case": _per_solved(tokens_per_solved(found)),
    }  # fmt: skip


@serializes("benchsite.experiment-comparison/v1")
def experiment_comparison_document(
    left: Experiment, right: Experiment, found: Paired, names: Mapping[str, str]
) -> Document:
    """The right experiment seen from the left one; `differs` says why there is no test."""

    def named(cases: Iterable[str]) -> list[str]:
        return sorted(names[case] for case in cases)

    return {
        "left": left.experiment_id,
        "left_trust": left.trust,
        "right": right.experiment_id,
        "right_trust": right.trust,
        "differs": [asdict(difference) for difference in found.differs],
        "better": named(found.better),
        "worse": named(found.worse),
        "same": named(found.same),
        "left_only": named(found.left_only),
        "right_only": named(found.right_only),
        "ungraded": named(found.ungraded),
        "difference": found.difference,
        "interval": _interval(found.interval),
        "method": found.method.value,
        "p_value": found.p_value,
        "test": found.test and found.test.value,
        "detectable": found.detectable,
        "least_difference": found.least_difference,
    }


@serializes("benchsite.suite-checkpoint/v1")
def suite_checkpoint_document(revision: SuiteRevision) -> Document:
    """The revision that a checkpoint made, or that was the same already."""
    return {
        "suite_id": revision.suite.suite_id,
        "revision": revision.number,
        "checkpoint_id": revision.checkpoint_id,
        "mode": revision.mode,
        "cases": revision.case_count,
        "created_at": timestamp(revision.created_at),
    }


def _interval(found: Interval | None) -> Document | None:
    return None if found is None else {"low": found.low, "high": found.high, "level": LEVEL}


def _per_solved(found: PerSolved) -> Document:
    return {**asdict(found), "complete": found.complete}


@serializes("benchsite.experiment-import/v1")
def experiment_import_document(result: JobImported) -> Document:
    """What became of a job that was handed in; with `dry_run`, what would."""
    return {
        "dry_run": result.options.dry_run,
        "job": result.report.name,
        "job_id": result.report.job_id,
        "experiments": [_imported(each) for each in result.imported],
        "skipped": [_of_job(each) for each in result.skipped],
        "failed": [{**_of_job(each), "error": sentence} for each, sentence in result.failed],
        "revisions": [
            {"suite_id": each.suite.suite_id, "number": each.number, "checkpoint_id": each.checkpoint_id}
            for each in result.revisions
        ],
        "warnings": [{"code": note.code, "where": note.where, "sentence": note.sentence} for note in result.warnings],
    }


@serializes("benchsite.experiments/v1")
def experiments_document(rows: Iterable[Experiment]) -> Document:
    """Experiments, the newest first; their rows carry `graded` and `passed`."""
    return {"experiments": [_experiment(row) for row in rows]}


@serializes("benchsite.experiment/v1")
def experiment_document(row: Experiment, trials: Iterable[ExperimentTrial]) -> Document:
    """One experiment with its trials; every number stands beside who says it."""
    listed = list(trials)
    missing, sentence = unproved(row.source)
    return {
        **_experiment(row),
        "suite_id": row.suite.suite_id,
        "checkpoint_id": row.checkpoint_id,
        "main_reward": row.main_reward,
        "pass_threshold": row.pass_threshold,
        "error": row.error,
        "harbor_version": row.harbor_version,
        "job_id": row.job_id,
        "imported_by": row.job_import.created_by_name if row.job_import else None,
        "unproved": list(missing),
        "unproved_sentence": sentence,
        "trials": [
            {
                "trial_name": trial.trial_name,
                "case": trial.case.name,
                "attempt": trial.attempt,
                "source": trial.source,
                "trust": trial.trust,
                "outcome": trial.outcome,
                "rewards": {score.name: score.number for score in trial.scores.all()},
                "error": trial.error or None,
                "badges": list(trial.badges),
            }
            for trial in listed
        ],
    }


def _experiment(row: Experiment) -> Document:
    """What lists show of an experiment whose row carries `graded` and `passed` (see `listed`)."""
    return {
        "experiment_id": row.experiment_id,
        "key": row.key,
        "name": row.name,
        "source": row.source,
        "trust": row.trust,
        "candidate": {
            "agent_name": row.agent_name,
            "model_provider": row.model_provider,
            "model_name": row.model_name,
        },
        "agent_version": row.agent_version,
        "dataset": row.dataset,
        "status": row.result or row.state,
        "requested": row.requested,
        **counts_of(row),
        "created_at": timestamp(row.created_at),
        "finalized_at": timestamp(row.finalized_at),
    }


def _of_job(planned: Planned) -> Document:
    who = planned.report.candidate
    return {
        "experiment_id": planned.experiment_id,
        "candidate": {
            "agent_name": who.agent_name,
            "model_provider": who.model_provider,
            "model_name": who.model_name,
        },
        "dataset": planned.report.source,
    }


def _imported(planned: Planned) -> Document:
    part = planned.report
    return {
        **_of_job(planned),
        "name": planned.name,
        "source": Source.IMPORTED.value,
        "trust": Trust.REPORTED.value,
        "status": (ExperimentResult.COMPLETED if part.complete else ExperimentResult.FAILED).value,
        "requested": part.requested,
        "graded": sum(trial.outcome.graded for trial in part.trials),
        "trials": [
            {
                "trial_name": trial.folder,
                "case": trial.case,
                "attempt": trial.attempt,
                "outcome": trial.outcome.value,
                "rewards": {reward.name: reward.number for reward in trial.rewards},
                "error": trial.error or None,
            }
            for trial in part.trials
        ],
    }
