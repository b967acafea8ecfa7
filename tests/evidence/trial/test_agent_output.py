"""Links among the outputs void nothing; what only the agent can have caused is its failure, and never an error of ours.

Each case is played on a synthetic run and on a real one, whose verifier gave reward 1.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from evidence.register.judging import trial_end
from evidence.suite.run_facts import read_run
from evidence.trial.agent_output import REASONS
from evidence.trial.classify import Classification, classify_trial
from evidence.trial.document import trial_document
from evidence.trial.facts import TrialFacts
from runs.models import Run, Trial
from runs.outcomes.buckets import Bucket
from runs.outcomes.codes import BADGES
from runs.web.presenting.trial_page import trial_page
from tests.evidence.folders import (
    AGENT_IMAGE,
    VERIFIER_IMAGE,
    RunCase,
    canonical,
    list_files,
    load_run,
    passing_run,
    sha256,
)
from tests.pages.factories import make_run, site

REAL = Path(__file__).parents[2] / "fixtures/real-run"
MAKE = pytest.mark.parametrize("make", [lambda: passing_run(1), lambda: load_run(REAL)], ids=["synthetic", "real"])
type Make = Callable[[], RunCase]

OUTPUT, LOGS = "/app/output", "/logs/artifacts"


def judged(run: RunCase, where: Path) -> tuple[TrialFacts, Classification]:
    facts = read_run(run.write(where / "run")).trials[0]
    return facts, classify_trial(facts)


def output(run: RunCase, path: str = OUTPUT) -> dict[str, object]:
    """The record of the download of one output; made when the run has none."""
    found = list(run.trial.matching("transfer", purpose="artifact", path=path))
    if not found:
        own = run.trial.event("transfer", purpose="artifact", path=OUTPUT)
        absent = {**own, "path": path, "outcome": "source_absent", "kept": None}
        list_files(absent, [])
        run.trial.events.insert(run.trial.events.index(own), {**absent, "at": own["at"], "mono": own["mono"]})
        return output(run, path)
    return found[-1]


def refuse(run: RunCase, code: str | None, path: str = OUTPUT, outcome: str = "refused") -> None:
    """The output was not taken and nothing of it reached the verifier."""
    found = output(run, path)
    kept = str(found["kept"] or "").removeprefix("kept/")
    run.trial.kept = {p: d for p, d in run.trial.kept.items() if not kept or not p.startswith(kept + "/")}
    found.update(outcome=outcome, code=code, entries=[], files=0, size=0, sha256=None, kept=None)
    if list(run.trial.matching("transfer", purpose="artifacts_in", path=path)):
        run.trial.drop("transfer", purpose="artifacts_in", path=path)


def pass_over(run: RunCase, counts: dict[str, int]) -> None:
    """What else stood among the files of the output was listed and counted."""
    output(run).update(
        outcome="partial",
        code="transfer.link",
        refusals=[{"path": code, "code": code} for code in counts],
        refused=counts,
    )


@MAKE
def test_plain_files_beside_links_are_graded_and_what_was_passed_over_is_counted(make: Make, tmp_path: Path) -> None:
    run = make()
    pass_over(run, {"transfer.link": 2, "transfer.name": 1})
    facts, result = judged(run, tmp_path)
    assert (result.code, result.reward, "output_passed_over" in result.badges) == ("passed.reward_1", 1, True)
    assert trial_document(facts, result)["output"] == {
        "refused": None,
        "passed_over": {"transfer.link": 2, "transfer.name": 1},
    }


@MAKE
@pytest.mark.parametrize("change", ["given less", "given something else"])
def test_what_the_verifier_was_given_is_held_against_a_partial_output_too(
    make: Make, change: str, tmp_path: Path
) -> None:
    run = make()
    pass_over(run, {"transfer.link": 1})
    given = run.trial.event("transfer", purpose="artifacts_in", path=OUTPUT)
    if change == "given less":
        run.trial.drop("transfer", purpose="artifacts_in", path=OUTPUT)
    else:
        list_files(given, [{**given["entries"][0], "sha256": "0" * 64}, *given["entries"][1:]])
    assert judged(run, tmp_path)[1].code == "integrity.verifier_input"


@MAKE
@pytest.mark.parametrize("code", REASONS)
def test_an_output_that_only_the_agent_can_have_spoiled_is_its_failure(make: Make, code: str, tmp_path: Path) -> None:
    """Its reward is 0 by rule, and storable as such, although the verifier of these runs wrote a 1."""
    run = make()
    refuse(run, code)
    facts, result = judged(run, tmp_path)
    assert (result.bucket, result.code, result.row, result.reward) == (Bucket.FAILED, "failed.output_refused", 10, 0)
    assert REASONS[code] in result.sentence
    document = trial_document(facts, result)
    assert (document["reward"], document["reward_seen"], document["task_passed"]) == (0, 1, False)
    assert (document["code"], document["output"]["refused"]) == ("failed.output_refused", code)


@MAKE
@pytest.mark.parametrize(
    ("outcome", "code", "expected"),
    [
        ("refused", "transfer.link", "worker_runtime.transfer_refused"),
        ("refused", "transfer.checksum", "worker_runtime.transfer_refused"),
        ("refused", "transfer.too_large", "worker_runtime.transfer_refused"),
        ("refused", "output.of_another_version", "worker_runtime.transfer_refused"),
        ("refused", None, "integrity.observed_broken"),
        ("failed", "output.too_large", "worker_runtime.transfer_failed"),
        ("failed", "transfer.timeout", "worker_runtime.transfer_failed"),
        ("failed", "transfer.tar", "worker_runtime.transfer_failed"),
        ("some other word", "output.too_large", "integrity.observed_broken"),
    ],
)
def test_whatever_else_went_wrong_with_an_output_is_never_charged_to_the_agent(
    make: Make, outcome: str, code: str | None, expected: str, tmp_path: Path
) -> None:
    run = make()
    refuse(run, code, outcome=outcome)
    assert judged(run, tmp_path)[1].code == expected


@MAKE
def test_our_own_failure_beside_a_refused_output_is_an_error(make: Make, tmp_path: Path) -> None:
    run = make()
    refuse(run, "output.too_large")
    failed = {"event": "failure", "where": "start", "code": "engine.gone", "detail": "", "role": "verifier"}
    run.trial.events.append({**failed, **{name: run.trial.events[-1][name] for name in ("at", "mono")}})
    assert judged(run, tmp_path)[1].code == "worker_runtime.start_failed"


@MAKE
def test_a_refused_output_without_a_proof_of_execution_is_an_error(make: Make, tmp_path: Path) -> None:
    run = make()
    refuse(run, "output.too_large")
    run.run["probe"] = None
    assert judged(run, tmp_path)[1].code == "invalid_evaluation.proof_missing"


@MAKE
def test_a_verifier_that_fails_without_the_refused_output_changes_nothing(make: Make, tmp_path: Path) -> None:
    run = make()
    refuse(run, "output.nothing_plain")
    run.trial.event("exec", purpose="verifier")["exit_code"] = 3
    run.trial.reward(json=None, txt=None)
    assert judged(run, tmp_path)[1].code == "failed.output_refused"


@MAKE
def test_a_full_disk_and_an_exit_with_an_error_do_not_spare_a_refused_output(make: Make, tmp_path: Path) -> None:
    run = make()
    refuse(run, "output.too_many")
    run.trial.event("exec", purpose="agent")["exit_code"] = 1
    run.trial.event("counters", role="agent").update(oom_kill=1, available=True)
    assert judged(run, tmp_path)[1].code == "failed.output_refused"


@MAKE
@pytest.mark.parametrize("code", REASONS)
def test_a_refused_folder_that_is_no_output_of_the_task_decides_nothing(make: Make, code: str, tmp_path: Path) -> None:
    run = make()
    refuse(run, code, LOGS)
    assert judged(run, tmp_path)[1].code == "passed.reward_1"


@MAKE
def test_an_output_of_links_alone_beside_another_that_was_graded_decides_nothing(make: Make, tmp_path: Path) -> None:
    run = make()
    run.manifest["tasks"][0]["artifacts"].append("/app/extra")
    run.spec["bundle"]["manifest_sha256"] = sha256(canonical(run.manifest))
    refuse(run, "output.nothing_plain", "/app/extra")
    assert judged(run, tmp_path)[1].code == "passed.reward_1"


@MAKE
def test_an_upload_is_never_partial(make: Make, tmp_path: Path) -> None:
    run = make()
    run.trial.event("transfer", purpose="environment")["outcome"] = "partial"
    assert judged(run, tmp_path)[1].code == "integrity.observed_broken"


@MAKE
def test_without_any_record_of_the_outputs_a_grade_is_not_believed(make: Make, tmp_path: Path) -> None:
    """The verifier grades 0 when our own side brought it nothing, which says nothing of the agent."""
    run = make()
    run.trial.reward(json=b'{"reward": 0}', txt=None)
    run.trial.drop("transfer", purpose="artifact")
    if list(run.trial.matching("transfer", purpose="artifacts_in")):
        run.trial.drop("transfer", purpose="artifacts_in")
    run.trial.kept = {path: data for path, data in run.trial.kept.items() if not path.startswith("artifacts/")}
    assert judged(run, tmp_path)[1].code == "invalid_evaluation.proof_missing"


@pytest.mark.django_db
@pytest.mark.parametrize("code", REASONS)
def test_the_row_of_such_a_trial_can_be_stored(code: str, tmp_path: Path) -> None:
    run = passing_run(1)
    refuse(run, code)
    facts, result = judged(run, tmp_path)
    end = trial_end(facts, result)
    row = Trial.objects.create(
        run=make_run(site(), "passed"),
        ordinal=9,
        task_name="t",
        task_checksum="0" * 64,
        bucket=end.bucket,
        failure_class=end.failure_class,
        failure_code=end.failure_code,
        reward=end.reward,
    )
    row.refresh_from_db()
    assert (row.bucket, row.reward, row.failure_code, row.evaluated) == ("failed", 0, "failed.output_refused", True)


def test_the_page_counts_what_was_passed_over_by_its_kind(tmp_path: Path) -> None:
    run = passing_run(1)
    pass_over(run, {"transfer.link": 1200, "transfer.name": 1})
    facts, result = judged(run, tmp_path)
    text = json.dumps(trial_document(facts, result))
    trial = Trial(ordinal=1, bucket="passed", badges=list(result.badges), result=text)
    (note,) = trial_page(trial, Run(spec="{}"))["badges"]
    assert note == f"{BADGES['output_passed_over']} link 1,200, name 1."


@pytest.mark.parametrize(
    ("image", "session", "passes"),
    [
        (VERIFIER_IMAGE, None, True),
        (AGENT_IMAGE, "image-mark-agent", True),
        (AGENT_IMAGE, None, False),
        (VERIFIER_IMAGE, "image-mark-agent", False),
        ("sha256:" + "9" * 64, "image-mark-agent", False),
    ],
)
def test_a_probe_looks_from_inside_the_image_that_it_is_for(
    tmp_path: Path, image: str, session: str | None, passes: bool
) -> None:
    """Before a run starts, each of its images is looked at from inside, by probes in the run's journal."""
    run = passing_run(1)
    like = next(each for each in run.journal["resources"] if each["role"] == "probe")
    another = {"image_id": image, "session_id": session, "nonce": "ab" * 16, "resource_id": "9" * 64}
    run.journal["resources"].append({**like, **another})
    assert (judged(run, tmp_path)[1].code == "passed.reward_1") is passes
