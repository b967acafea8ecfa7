"""Whatever the facts and whatever the bytes: one bucket, no crash, and never passed without every proof."""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchsite.lib.canonical import canonical_bytes
from evidence.reading.proofs import Proof
from evidence.reading.rewards import Reward, RewardState
from evidence.suite.run_facts import read_run
from evidence.trial.agent_output import REASONS
from evidence.trial.classify import ROWS, classify_trial
from evidence.trial.document import trial_document
from evidence.trial.endpoint import EndpointFacts, EndpointFailure
from evidence.trial.facts import (
    AgentFacts,
    Deadline,
    OutputFacts,
    OwnFailure,
    Resources,
    Timing,
    TrialFacts,
    VerifierFacts,
)
from runs.outcomes.buckets import Bucket
from runs.outcomes.codes import CODES, FailureClass
from tests.evidence.folders import passing_run

# How many times the usual number of examples: 20 gives the 20,000 of the acceptance.
SCALE = int(os.environ.get("BENCHSITE_EXAMPLES_SCALE", "1"))

codes = st.sampled_from(sorted(CODES))
own_codes = st.sampled_from([name for name, code in CODES.items() if code.bucket is Bucket.ERROR])
checks = st.builds(Proof, st.just("check"), codes, st.booleans())
failures = st.builds(
    EndpointFailure,
    st.sampled_from([c for c in CODES if c.startswith("routing.")]),
    st.none() | st.integers(),
)
exits = st.none() | st.sampled_from([0, 1, 137])
timings = st.sampled_from(list(Timing))
facts = st.builds(
    TrialFacts,
    trial=st.integers(0, 3),
    task=st.text(max_size=5),
    checks=st.lists(checks, max_size=3).map(tuple),
    proofs=st.lists(
        st.builds(Proof, st.just("p"), st.just("invalid_evaluation.proof_missing"), st.booleans()), max_size=2
    ).map(tuple),
    started=st.booleans(),
    cancel=timings,
    interrupted=st.booleans(),
    process_lost=st.booleans(),
    own_failures=st.lists(st.builds(OwnFailure, own_codes), max_size=1).map(tuple),
    harness_failure=st.none() | st.builds(OwnFailure, st.just("harness.no_result")),
    harbor_exception=st.none() | st.text(max_size=3),
    deadline=st.none()
    | st.builds(
        Deadline,
        st.sampled_from(["environment", "setup", "agent", "verifier", "trial", "run"]),
        st.none() | st.floats(0, 9999),
        timings,
    ),
    endpoint=st.builds(
        EndpointFacts,
        st.integers(0, 2),
        st.integers(0, 2),
        st.integers(0, 2),
        st.integers(0, 2),
        st.none() | failures,
        st.booleans(),
    ),
    agent=st.builds(AgentFacts, st.booleans(), exits, st.booleans(), st.booleans()),
    resources=st.builds(Resources, st.booleans(), st.integers(0, 1), st.integers(0, 1), st.booleans(), st.booleans()),
    output=st.builds(OutputFacts, st.sampled_from(["", *REASONS])),
    verifier=st.builds(
        VerifierFacts,
        st.booleans(),
        exits,
        st.booleans(),
        st.lists(st.just("x: failed"), max_size=1).map(tuple),
    ),
    reward=st.builds(Reward, st.sampled_from(list(RewardState))),
)


@settings(max_examples=800 * SCALE, deadline=None)
@given(facts)
def test_any_facts_get_exactly_one_bucket_and_pass_only_with_every_proof(trial: TrialFacts) -> None:
    result = classify_trial(trial)
    assert result == classify_trial(trial)
    assert result.bucket is CODES[result.code].bucket
    assert result.sentence and "{" not in result.sentence
    assert result.row in {number for number, _ in ROWS} | {12}
    if result.evaluated:
        assert all(
            check.ok
            for check in trial.checks
            if CODES[check.code].klass in (FailureClass.INTEGRITY, FailureClass.INVALID_EVALUATION)
        )
        assert all(proof.ok for proof in trial.proofs)
        assert trial.cancel is not Timing.BEFORE_GRADE and not trial.interrupted and not trial.process_lost
        assert not trial.own_failures and trial.harness_failure is None
        assert trial.deadline is None or trial.deadline.timing is not Timing.BEFORE_GRADE
        assert trial.endpoint.completions > 0 and trial.agent.ended
        assert result.reward == (1 if result.bucket is Bucket.PASSED else 0)
        if trial.output.refused:
            assert result.bucket is Bucket.FAILED
        else:
            assert trial.verifier.ended and trial.verifier.exit_code == 0 and not trial.verifier.bad_transfers
            assert trial.reward.state.value_or_none == result.reward
    canonical_bytes(trial_document(trial, result))


FILES = [
    "spec.json",
    "run.json",
    "journal.json",
    "ledger.jsonl",
    "trials/1/supervision.json",
    "trials/1/observed.jsonl",
    "trials/1/job/lock.json",
    "trials/1/job/config.json",
    "trials/1/job/task__AbCdEfG/result.json",
    "trials/1/job/task__AbCdEfG/lock.json",
    "trials/1/kept/verifier/reward.json",
]


# Texts that are no time as our own side writes it, some of which cannot be compared with one that is.
NO_TIMES = ["", "2026-W49-2", "2026-06-17T04:00:05.000000", "0001-01-01T00:00:00", "9999-12-31T23:59:59.999999Z"]


@pytest.mark.parametrize("text", NO_TIMES)
def test_any_line_of_the_record_with_a_time_that_is_none_breaks_it(text: str, tmp_path: Path) -> None:
    for number, _ in enumerate(passing_run(1).trial.events):
        run = passing_run(1)
        run.trial.events[number]["at"] = text
        (trial,) = read_run(run.write(tmp_path / str(number))).trials
        assert classify_trial(trial).code == "integrity.observed_broken"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return passing_run(1).write(tmp_path_factory.mktemp("base") / "run")


@settings(max_examples=200 * SCALE, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.sampled_from(FILES), data=st.data())
def test_any_bytes_in_any_file_give_one_bucket_and_a_changed_proof_never_passes(
    base: Path, tmp_path: Path, path: str, data: st.DataObject
) -> None:
    original = (base / path).read_bytes()
    changed = data.draw(_changed(original))
    run = tmp_path / "run"
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(base, run)
    (run / path).write_bytes(changed)
    (trial,) = read_run(run).trials or (TrialFacts(1, "unknown", started=False),)
    result = classify_trial(trial)
    assert result.bucket in Bucket
    if changed != original and path.endswith("reward.json"):
        assert result.bucket is Bucket.ERROR
    canonical_bytes(trial_document(trial, result))


def _changed(original: bytes) -> st.SearchStrategy[bytes]:
    """Replaced wholly, cut, or with a piece overwritten, doubled or removed."""
    places = st.tuples(st.integers(0, len(original)), st.integers(0, 60))
    pieces = st.sampled_from(
        [b"", b"null", b"true", b"1", b'"x"', b"[]", b"{}", b"\xff", b"\0", b"1e999", b"-1", b"\\ud800"]
    )
    return st.one_of(
        st.binary(max_size=200),
        st.integers(0, len(original)).map(lambda end: original[:end]),
        st.tuples(places, pieces | st.binary(max_size=8)).map(
            lambda drawn: original[: drawn[0][0]] + drawn[1] + original[drawn[0][0] + drawn[0][1] :]
        ),
        places.map(lambda at: original[: at[0] + at[1]] + original[at[0] :]),
    )
