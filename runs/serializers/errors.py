"""Exit codes of runs and refusals, and refusals as documents."""

from dataclasses import asdict

from django.core.exceptions import PermissionDenied

from benchsite.lib.problems import DocumentError
from benchsite.lib.serializing import Document, Exit, error_document
from runs.models import Cleanup, Run
from runs.outcomes.buckets import Verdict
from runs.services.refusals import BadInput, Blocked, Changed, NotAccepted
from runs.services.transitions import IllegalTransition

_OF_VERDICT = {
    Verdict.PASSED: Exit.DONE,
    Verdict.FAILED: Exit.FAILED,
    Verdict.INCOMPLETE: Exit.ERROR,
    Verdict.ERROR: Exit.ERROR,
    Verdict.CANCELLED: Exit.CANCELLED,
}


def exit_of_verdict(verdict: Verdict) -> Exit:
    """The exit code of a verdict."""
    return _OF_VERDICT[verdict]


def exit_of_run(run: Run) -> Exit:
    """A run's exit code. What was left behind weighs more than the verdict: somebody has to act."""
    if not run.terminal or run.verdict is None:
        return Exit.DONE
    return Exit.CLEANUP_FAILED if run.cleanup == Cleanup.FAILED else exit_of_verdict(Verdict(run.verdict))


def exit_of_error(error: Exception) -> Exit:
    """Bad input, missing permission and unknown ids are 2; whatever blocks a start is 3."""
    if isinstance(error, BadInput | DocumentError | IllegalTransition | PermissionDenied):
        return Exit.BAD_INPUT
    return Exit.BLOCKED


def refusal_document(error: Exception, *, exit_code: Exit | None = None, sentence: str = "") -> Document:
    """The refusal's own code and sentence, and what belongs to its kind; never its private detail.

    ``exit_code`` and ``sentence`` replace what the error says by itself.
    """
    more: Document = {}
    match error:
        case DocumentError() | BadInput():
            more = {"problems": [problem.as_json() for problem in error.problems]}
        case Blocked():
            more = {"checks": error.checks}
        case NotAccepted():
            more = {"accept": error.names}
        case Changed():
            more = {"differences": [asdict(difference) for difference in error.differences]}
    return error_document(
        str(getattr(error, "code", "access.refused")),
        sentence or str(getattr(error, "sentence", error)),
        exit_of_error(error) if exit_code is None else exit_code,
        **more,
    )
