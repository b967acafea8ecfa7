"""The one table of classification codes: the bucket, class, rows and sentence of each.

The classifier gives codes, pages and documentation list them. A sentence may hold fields in braces; only numbers and
words of our own fill them, never text from a run.
"""

from dataclasses import dataclass
from enum import StrEnum

from runs.outcomes.buckets import Bucket


class FailureClass(StrEnum):
    """Who or what is answerable for an error, or for a trial that was not evaluated."""

    NONE = ""
    INTEGRITY = "integrity"
    INVALID_EVALUATION = "invalid_evaluation"
    CANCELLED = "cancelled"
    WORKER_RUNTIME = "worker_runtime"
    HARNESS = "harness"
    INCOMPLETE = "incomplete"
    AUTHENTICATION = "authentication"
    ROUTING = "routing"
    SERVING_RUNTIME = "serving_runtime"
    RESOURCE_EXHAUSTION = "resource_exhaustion"
    GRADING = "grading"


class Step(StrEnum):
    """What the classifier looks at, in its order; each step is one or several rows of its table."""

    IDENTITY = "identity"
    CONTROLS = "controls"
    EXECUTION = "execution"
    TIME_LIMITS = "time_limits"
    ENDPOINT = "endpoint"
    RESOURCES = "resources"
    PROOF = "proof"
    GRADE = "grade"


STEP_OF_ROW = {
    1: Step.IDENTITY,
    2: Step.CONTROLS,
    3: Step.EXECUTION,
    4: Step.EXECUTION,
    5: Step.EXECUTION,
    6: Step.TIME_LIMITS,
    7: Step.ENDPOINT,
    8: Step.RESOURCES,
    9: Step.PROOF,
    10: Step.GRADE,
    11: Step.GRADE,
    12: Step.GRADE,
}

# The classifier's rows that give the codes of a class, and of the codes that other rows give.
_ROWS_OF_CLASS = {
    FailureClass.NONE: (12,),
    FailureClass.INTEGRITY: (1,),
    FailureClass.INVALID_EVALUATION: (2,),
    FailureClass.CANCELLED: (3,),
    FailureClass.WORKER_RUNTIME: (5,),
    FailureClass.HARNESS: (5,),
    FailureClass.INCOMPLETE: (6,),
    FailureClass.AUTHENTICATION: (7,),
    FailureClass.ROUTING: (7,),
    FailureClass.SERVING_RUNTIME: (7,),
    FailureClass.RESOURCE_EXHAUSTION: (8,),
    FailureClass.GRADING: (10,),
}
_ROWS_OF_CODE = {
    "failed.output_refused": (10,),
    "integrity.record_course": (1, 9),
    "integrity.reward_differs": (9,),
    "integrity.times_inverted": (1, 9),
    "integrity.artifact_hash": (1, 9),
    "integrity.verifier_input": (1, 9),
    "integrity.run_refused": (5,),
    "integrity.reward_both_files": (11,),
    "integrity.reward_duplicate_key": (11,),
    "invalid_evaluation.agent_version": (9,),
    "invalid_evaluation.no_agent_end": (9,),
    "invalid_evaluation.no_completion": (9,),
    "invalid_evaluation.proof_missing": (9,),
    "invalid_evaluation.not_verified_separately": (9,),
    "worker_runtime.interrupted": (4,),
    "worker_runtime.host_lost": (4,),
    "worker_runtime.process_lost": (4,),
    "worker_runtime.not_started": (4,),
    "worker_runtime.verifier_transfer": (10,),
}


@dataclass(frozen=True, slots=True)
class Code:
    """One stable code: its bucket and class, and what happened, what it means, what to do."""

    name: str
    bucket: Bucket
    klass: FailureClass
    title: str
    sentence: str
    remedy: str = ""

    @property
    def rows(self) -> tuple[int, ...]:
        """The rows of the classifier that give this code, 1 to 12; of a result that does not say, the first."""
        return _ROWS_OF_CODE.get(self.name, _ROWS_OF_CLASS[self.klass])


SENTENCE_FIELDS = ("exit_code", "status", "limit_s", "why")

_NOT_COUNTED = "The trial was not evaluated and counts neither as passed nor as failed."


def _errors(klass: FailureClass, remedy: str, rows: dict[str, tuple[str, ...]]) -> list[Code]:
    """``rows``: suffix to title, sentence, and where the class's own does not fit another remedy."""
    return [
        Code(f"{klass.value}.{suffix}", Bucket.ERROR, klass, title, f"{sentence} {_NOT_COUNTED}", *(own or [remedy]))
        for suffix, (title, sentence, *own) in rows.items()
    ]


_OUTCOMES = [
    Code(
        "passed.reward_1",
        Bucket.PASSED,
        FailureClass.NONE,
        "Passed",
        "The separate verifier graded the agent's work with reward 1, and every proof of execution is there.",
    ),
    Code(
        "failed.reward_0",
        Bucket.FAILED,
        FailureClass.NONE,
        "Failed",
        "The separate verifier graded the agent's work with reward 0, and every proof of execution is there.",
    ),
    Code(
        "failed.output_refused",
        Bucket.FAILED,
        FailureClass.NONE,
        "Output refused",
        "The agent left {why}, so nothing of it was graded; that counts as reward 0, and every proof of execution is "
        "there.",
    ),
    Code(
        "cancelled.requested",
        Bucket.CANCELLED,
        FailureClass.CANCELLED,
        "Cancelled",
        "The run was cancelled before this trial was graded. " + _NOT_COUNTED,
        "Start a new run when you want the result.",
    ),
]

_INTEGRITY = _errors(
    FailureClass.INTEGRITY,
    "Do not use this result. Look at the failed checks, then start a new run.",
    {
        "run_identity": (
            "Run identity mismatch",
            "The records are not those of one run, or not of the expected one: {why}.",
        ),
        "spec_mismatch": ("Spec mismatch", "The stored spec is not the one that was confirmed: {why}."),
        "spec_unreadable": ("Spec unreadable", "The stored spec is missing or cannot be read."),
        "run_unreadable": ("Run record unreadable", "The run's own record is missing or cannot be read."),
        "journal_unreadable": ("Journal unreadable", "The ownership journal is missing or cannot be read."),
        "trial_identity": (
            "Trial identity mismatch",
            "The records of this trial do not name one and the same trial: {why}.",
        ),
        "duplicate_trial": (
            "Two results for one trial",
            "More than one result was found where exactly one was requested.",
        ),
        "foreign_trial": (
            "Unexpected trial",
            "There is something of another task or of no requested trial: {why}.",
        ),
        "trial_missing": (
            "Records of the trial missing",
            "Nothing that was recorded about this trial is there, but journal or ledger show that it was started.",
        ),
        "task_checksum": ("Task mismatch", "The task's checksum in the result is not the one that was confirmed."),
        "image_mismatch": ("Image mismatch", "A container of this trial ran from another image than the locked one."),
        "network_mismatch": (
            "Network mismatch",
            "A container of this trial stood in another network than its role may.",
        ),
        "manifest_mismatch": (
            "Reviewed manifest missing",
            "The bundle's manifest that was kept with the run is missing, or is not the confirmed one.",
        ),
        "reviewed_files": (
            "Task files mismatch",
            "A file of the task or of its grading program that went into a container is not the reviewed one.",
        ),
        "run_refused": ("Identity mismatch", "A hash or an identity differed before this trial could start."),
        "artifact_hash": (
            "Stored file mismatch",
            "What is stored is not byte for byte what the attendant copied: {why}.",
        ),
        "verifier_input": (
            "Verifier input mismatch",
            "The verifier received a file that is not what was copied out of the agent's container.",
        ),
        "times_inverted": (
            "Timestamps out of order",
            "Recorded times contradict each other, such as an end before its beginning.",
        ),
        "observed_broken": (
            "Attendant's record broken",
            "The attendant's record of what it saw has a gap, a repetition, or a line that is not as it writes them.",
        ),
        "record_course": (
            "Record out of course",
            "The attendant's record is not the course of such a trial: {why}.",
        ),
        "journal_differs": (
            "Journal mismatch",
            "What the ownership journal says of the run's containers, networks and processes does not fit it: {why}.",
        ),
        "record_unreadable": ("Record unreadable", "A record that our own side wrote about this trial cannot be read."),
        "ledger_broken": (
            "Ledger broken",
            "The gateway's ledger is missing, has a gap, or its hash chain does not hold.",
        ),
        "ledger_foreign": (
            "Ledger of another run",
            "The gateway's ledger names another run, spec or gateway or none, or the run's record another ledger.",
        ),
        "ledger_times": (
            "Ledger at impossible times",
            "A line of the gateway's ledger lies outside the run, before its trial's agent or after its grading began.",
        ),
        "budget_differs": (
            "Budget mismatch",
            "What the gateway's ledger and the run's record say of budgets does not fit the spec: {why}.",
        ),
        "folder_mismatch": ("Another folder", "The files of this folder are not those whose hash was given."),
        "reward_before_verifier": (
            "Reward older than the verifier",
            "The reward file is older than the verifier that should have written it.",
        ),
        "reward_differs": (
            "Rewards differ",
            "Harbor's own files hold another reward than the attendant copied out of the verifier's container.",
        ),
        "reward_both_files": (
            "Two reward files",
            "Both reward.json and reward.txt were written where exactly one is allowed, equal or not.",
        ),
        "reward_duplicate_key": (
            "Duplicate key in the reward",
            "The reward file names a key twice, so it says two things at once.",
        ),
    },
)

_INVALID = _errors(
    FailureClass.INVALID_EVALUATION,
    "Nothing was measured. Check the worker's harness lock and the endpoint, then start a new run.",
    {
        "install_only": ("Agent only installed", "Harbor was configured to install the agent and stop there."),
        "verification_disabled": ("Verification disabled", "Harbor was configured not to grade."),
        "shared_verifier": ("Shared verifier", "The verifier shared the agent's container instead of having its own."),
        "other_agent": ("Wrong agent", "Harbor ran another agent than the one that was confirmed."),
        "other_controls": ("Controls mismatch", "Harbor applied other controls than the ones that were confirmed."),
        "other_limits": (
            "Limits mismatch",
            "A container of this trial ran with other limits than the ones that were confirmed.",
        ),
        "told_differently": (
            "Configuration mismatch",
            "Harbor or its provider was given another configuration than the one that was confirmed.",
        ),
        "agent_version": (
            "Agent version not verified",
            "The attendant did not see the locked version of the agent before it ran.",
        ),
        "no_agent_end": (
            "Agent end not recorded",
            "No end of the agent's command was recorded, so it is not known that it ran.",
        ),
        "no_completion": (
            "No answer from the model",
            "The gateway recorded no well-formed answer of the model for this trial.",
        ),
        "proof_missing": (
            "Proof of execution missing",
            "A part of the proof of execution is not there: {why}.",
        ),
        "not_verified_separately": (
            "No separate verifier seen",
            "The attendant saw no verifier container of its own for this trial.",
        ),
    },
)

_WORKER = _errors(
    FailureClass.WORKER_RUNTIME,
    "Look at the worker and its engine, then start a new run.",
    {
        "interrupted": ("Interrupted", "The worker was interrupted while this trial was open."),
        "host_lost": ("Host lost", "The run's host was declared lost by an operator while this trial was open."),
        "process_lost": ("Harness process lost", "The harness process ended by a signal that we did not send."),
        "not_started": ("Not started", "The run ended before this trial was started."),
        "preflight": ("Preflight failed", "A check before the start failed, so no trial was started."),
        "gateway": ("Gateway failed", "The gateway could not be started or did not stay up."),
        "probe": (
            "Isolation not proved",
            "The egress probe found that a container could reach more than the gateway, or not the gateway.",
        ),
        "start_failed": ("Container not started", "The attendant could not create or start a container."),
        "exec_failed": ("Command not executed", "The engine could not execute a command in a container."),
        "stop_failed": ("Container not stopped", "The attendant could not stop or remove a container."),
        "setup_failed": ("Set-up failed", "The agent's set-up command ended with code {exit_code}."),
        "transfer_failed": ("Transfer failed", "A transfer between the worker and a container failed."),
        "transfer_refused": (
            "Transfer refused",
            "What a container sent is no archive that tar makes of files, so it was refused.",
        ),
        "disk_full": ("Disk full", "The worker's disk was full."),
        "provider_failure": ("Attendant failure", "The attendant recorded a failure of another kind."),
        "verifier_transfer": (
            "Verifier transfer failed",
            "A transfer to or from the verifier did not succeed, so the grade cannot be read whole.",
        ),
    },
)

_HARNESS = _errors(
    FailureClass.HARNESS,
    "Look at the harness log among the private evidence.",
    {
        "config_differs": ("Harbor config mismatch", "Harbor recorded another config than the one it was given."),
        "sandbox_violation": (
            "Sandbox broke the protocol",
            "Harbor's process asked for what no trial of its plan may ask, another deadline included, and was ended.",
        ),
        "no_result": ("No result", "Harbor ended without writing a result for this trial."),
        "result_unreadable": ("Result unreadable", "Harbor's result for this trial cannot be read."),
        "result_unsupported": (
            "Result of an unknown version",
            "Harbor's result or lock has a version that this site does not know.",
        ),
        "exception": (
            "Harbor failed",
            "Harbor recorded an exception that is neither the agent's own exit nor a time limit.",
        ),
        "run_failure": ("Run failed", "The run failed before this trial could be completed."),
        "gateway_incompatible": (
            "Gateway refused the model's words",
            "The gateway refused to send back what the endpoint itself had said, which is a fault of this site.",
            "Report it with the endpoint's kind and the code in the ledger; until it is mended, use another endpoint.",
        ),
    },
)

_INCOMPLETE = _errors(
    FailureClass.INCOMPLETE,
    "Compare the limit with the stage's duration. A reward that came later is kept, marked and not counted.",
    {
        f"{phase}_deadline": (
            f"{word} time limit",
            f"{word} ran into the limit of {{limit_s}} before the trial was graded.",
        )
        for phase, word in {
            "environment": "The environment's start",
            "setup": "The agent's set-up",
            "agent": "The agent",
            "verifier": "The verifier",
            "trial": "The trial",
            "run": "The run",
        }.items()
    }
    | {
        "budget": (
            "Budget used up",
            "This trial was not carried to its end, because {why} was used up.",
            "Raise the budget in the endpoint's record, or choose fewer tasks or steps. A grade is kept, not counted.",
        ),
        "rate_limit": (
            "Kept waiting too long",
            "A request waited for its turn at the endpoint for longer than it may, and was refused.",
            "Raise the limits in the endpoint's record, or let fewer requests be made at the same time.",
        ),
    },
)

_ENDPOINT_REMEDY = "Check the endpoint and its credential, then start a new run."
_ENDPOINT = [
    *_errors(
        FailureClass.AUTHENTICATION,
        _ENDPOINT_REMEDY,
        {
            "rejected": ("Credential rejected", "The endpoint rejected the credential (status {status})."),
            "not_ready": (
                "Credential refused before the start",
                "The endpoint refused the credential before any trial was started.",
            ),
        },
    ),
    *_errors(
        FailureClass.ROUTING,
        _ENDPOINT_REMEDY,
        {
            "unreachable": ("Endpoint unreachable", "The gateway could not reach the endpoint."),
            "not_ready": (
                "Endpoint not found before the start",
                "The endpoint or its model was not found before any trial was started.",
            ),
            "tls": ("TLS not verified", "The endpoint's TLS certificate could not be verified."),
            "address_refused": (
                "Address not permitted",
                "The endpoint's name leads to an address that the gateway may not connect to.",
            ),
            "wrong_model": ("Wrong model", "The endpoint answered with another model than the alias."),
            "not_found": ("Endpoint has no such model", "The endpoint answered with status {status}."),
            "redirected": ("Endpoint redirects", "The endpoint answered with status {status} and was not followed."),
        },
    ),
    *_errors(
        FailureClass.SERVING_RUNTIME,
        _ENDPOINT_REMEDY,
        {
            "rate_limited": ("Rate limited", "The endpoint answered with status {status}: too many requests."),
            "upstream_status": ("Endpoint error", "The endpoint answered with status {status}."),
            "not_ready": (
                "Endpoint not ready before the start",
                "The endpoint could not serve before any trial was started.",
            ),
            "timeout": ("Endpoint too slow", "The endpoint did not answer within the request's time limit."),
            "malformed": ("Malformed answer", "The endpoint's answer is not a well-formed completion."),
            "malformed_answer": ("Malformed answer", "The endpoint's answer is no well-formed completion: {why}."),
            "error_in_success": (
                "Error inside an answer",
                "The endpoint answered with a status of success and an error of an unknown code.",
            ),
            "unreadable": ("Unreadable answer", "The endpoint's answer was too large or badly encoded."),
        },
    ),
]

_RESOURCES = _errors(
    FailureClass.RESOURCE_EXHAUSTION,
    "Compare the agent's limits with its counters, and raise the bundle's ceiling if the task needs more.",
    {
        "memory": ("Out of memory", "The agent ended with an error after the kernel killed a process for memory."),
        "pids": ("Too many processes", "The agent ended with an error after it reached its limit of processes."),
        "disk": ("Disk limit", "The agent ended with an error after it filled its writable space."),
    },
)

_GRADING = _errors(
    FailureClass.GRADING,
    "Look at the verifier's output among the private evidence.",
    {
        "verifier_exit": ("Verifier failed", "The verifier ended with code {exit_code} instead of 0."),
        "verifier_not_run": ("Verifier did not run", "No end of the verifier's command was recorded."),
        "reward_missing": ("No reward", "The verifier wrote no reward file."),
        "reward_unreadable": ("Reward unreadable", "The reward file cannot be read as a plain small file."),
        "reward_malformed": ("Reward malformed", "The reward file does not follow the reward syntax."),
        "reward_key_missing": ("Declared key missing", "The reward file does not hold the declared key."),
        "reward_extra_key": ("Extra key", "The reward file holds more than the declared key."),
        "reward_null": ("Reward is null", "The reward is null, which is no grade."),
        "reward_boolean": ("Reward is a boolean", "The reward is true or false where the number 0 or 1 is needed."),
        "reward_type": ("Reward of a wrong type", "The reward is not the integer 0 or 1."),
        "reward_nonfinite": ("Reward is not finite", "The reward is not a finite number."),
        "reward_domain": ("Reward out of range", "The reward is neither 0 nor 1."),
    },
)

CODES: dict[str, Code] = {
    code.name: code
    for code in [
        *_OUTCOMES,
        *_INTEGRITY,
        *_INVALID,
        *_WORKER,
        *_HARNESS,
        *_INCOMPLETE,
        *_ENDPOINT,
        *_RESOURCES,
        *_GRADING,
    ]
}

# Notes beside a result. They never choose a bucket.
BADGES: dict[str, str] = {
    "step_limit_reached": "The agent used every model request it was allowed.",
    "command_limit_hit": "A command of the agent ran into the agent's own time limit.",
    "agent_exited_nonzero": "The agent's command ended with an error.",
    "agent_timed_out": "The agent's command was ended at its time limit.",
    "oom_kills": "The kernel killed a process in the agent's container for memory.",
    "pids_limit_hit": "The agent's container reached its limit of processes.",
    "tmpfs_full": "A writable folder of the agent's container was filled.",
    "counters_unavailable": "The engine's resource counters could not be read.",
    "graded_after_limit": "The verifier gave a reward after a time limit; it is kept and not counted.",
    "reward_not_counted": "The verifier gave a reward that is not counted.",
    "late_cancel": "A cancel was requested after this trial was graded.",
    "late_deadline": "A time limit was reached after this trial was graded.",
    "answer_cut": "An answer was cut at the token limit.",
    "model_refused": "The model refused.",
    "context_window_exceeded": "The conversation outgrew the model's context window.",
    "gateway_refusals": "The gateway refused requests of the agent.",
    "session_mismatch": "Requests carried another session header than the trial's.",
    "output_passed_over": "Links, special files or odd names among the agent's output were listed and not graded.",
    "agent_logs_refused": "The agent's logs were refused because they held unsafe entries.",
    "agent_logs_missing": "The agent left no logs.",
    "provider_record_open": "The attendant's record has no closing line.",
    "harbor_exception": "Harbor recorded an exception for this trial.",
}
