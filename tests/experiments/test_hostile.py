"""Jobs that somebody altered, more than 150 of them: nothing raises, and nothing passes that its result does not say.

Each variant is one change of a real job. What may pass afterwards is told by an independent reading of the trial's own
result, with Python's own lax parser: whatever the reader believes must stand there.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db.models import Model
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evidence.experiments.importing import ImportOptions, import_job
from evidence.imports.description import BADGES, JobReport
from evidence.imports.job import MAX_TRIALS, JobRefused, read_job
from evidence.imports.outcomes import ReportedOutcome
from evidence.models import Experiment, ExperimentTrial
from runs.models import Run, Trial
from runs.services.refusals import BadInput
from tests.experiments.jobs import copy_of
from tests.runs.rows import person

type Change = Callable[[Path], None]

MARKUP = "<script>alert(1)</script>\u202e\u2028'\";--{{ 7*7 }}"
ODD_VALUES: dict[str, Any] = {
    "null": None, "true": True, "text": "1.0", "list": [1], "object": {"reward": 1}, "empty": {}, "number": 7,
    "large": 10**400, "negative": -1, "markup": MARKUP, "long": "x" * 5000, "nul": "a\0b",
}  # fmt: skip
PLACES = [
    ("task_name",), ("trial_name",), ("source",), ("task_checksum",), ("config",), ("config", "job_id"),
    ("agent_info",), ("agent_info", "name"), ("agent_info", "version"), ("agent_info", "model_info"),
    ("agent_info", "model_info", "provider"), ("agent_result",), ("agent_result", "n_input_tokens"),
    ("agent_result", "cost_usd"), ("agent_result", "metadata"), ("verifier_result",), ("verifier_result", "rewards"),
    ("verifier_result", "rewards", "reward"), ("exception_info",), ("started_at",), ("agent_execution",),
    ("step_results",), ("schema_version",), ("reward_valid",),
]  # fmt: skip


def _at(place: tuple[str, ...], value: Any) -> Change:
    def change(job: Path) -> None:
        path = _trial(job) / "result.json"
        document = json.loads(path.read_text())
        here = document
        for key in place[:-1]:
            here = here[key]
        here[place[-1]] = value
        path.write_text(json.dumps(document))

    return change


def _trial(job: Path) -> Path:
    """A trial that passed."""
    return next(path for path in sorted(job.iterdir()) if path.name.startswith("pass__"))


def _failing(job: Path) -> Path:
    return next(path for path in sorted(job.iterdir()) if path.name.startswith("fail__"))


def _text(name: str, edit: Callable[[str], str], *, failing: bool = False) -> Change:
    def change(job: Path) -> None:
        path = (_failing(job) if failing else _trial(job)) / name
        path.write_text(edit(path.read_text()))

    return change


def _bytes(name: str, data: bytes) -> Change:
    def change(job: Path) -> None:
        path = _failing(job) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_bytes(data)

    return change


def _passing_result(job: Path) -> str:
    return (_trial(job) / "result.json").read_text()


def _plant(where: str) -> Change:
    """The passing trial's result at another place of the failing one, in its own words."""

    def change(job: Path) -> None:
        forged = json.loads(_passing_result(job))
        forged["trial_name"] = where.rstrip("/").rpartition("/")[2] or "x"
        place = _failing(job) / where
        place.mkdir(parents=True, exist_ok=True)
        (place / "result.json").write_text(json.dumps(forged))
        (place / "config.json").write_text(json.dumps(forged["config"]))

    return change


def _replaced(name: str, make: Callable[[Path], None]) -> Change:
    def change(job: Path) -> None:
        path = _failing(job) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        make(path)

    return change


def _link_to_the_passing(path: Path) -> None:
    path.symlink_to(_trial(path.parent.parent) / "result.json")


def _renamed(name: str) -> Change:
    def change(job: Path) -> None:
        _failing(job).rename(job / name)

    return change


def _a_link_for_the_trial(job: Path) -> None:
    failing = _failing(job)
    shutil.rmtree(failing)
    failing.symlink_to(_trial(job))


def _another_jobs_trial(job: Path) -> None:
    shutil.copytree(_trial(job), job / "extra__AAAAAAA")
    for name in ("result.json", "config.json"):
        document = json.loads((job / "extra__AAAAAAA" / name).read_text())
        document["trial_name"] = "extra__AAAAAAA"
        (document["config"] if name == "result.json" else document)["job_id"] = "0" * 36
        (job / "extra__AAAAAAA" / name).write_text(json.dumps(document))


def _copied_under_another_name(job: Path) -> None:
    shutil.copytree(_trial(job), job / "copy__AAAAAAA")


def _of_the_job(name: str, data: bytes) -> Change:
    def change(job: Path) -> None:
        (job / name).write_bytes(data)

    return change


def _deep(job: Path) -> None:
    place = _failing(job) / "artifacts"
    for _ in range(60):
        place = place / "d"
    place.mkdir(parents=True)


def _many_files(job: Path) -> None:
    place = _failing(job) / "artifacts/many"
    place.mkdir(parents=True)
    for number in range(2_100):
        (place / str(number)).touch()


def _sparse(job: Path) -> None:
    with (_failing(job) / "agent/huge.bin").open("wb") as file:
        file.truncate(65 * 1024 * 1024)


def _undecodable(job: Path) -> None:
    odd = job / os.fsdecode(b"\xff\xfe__AAAAAAA")
    odd.mkdir()
    (odd / "result.json").write_text(_passing_result(job))


_DUPLICATE = '"verifier_result": {"rewards": {"reward": 1.0}},'
_BAD_BYTES = {
    "empty": b"", "cut": b'{"id": ', "list": b"[]", "scalar": b"1", "utf16": "{}".encode("utf-16"),
    "bom": b"\xef\xbb\xbf{}", "nul": b"\0" * 64, "deep": b"[" * 100_000, "nan": b'{"a": NaN}',
    "deep_object": b'{"a":' * 5_000 + b"1" + b"}" * 5_000, "large": b'"' + b"x" * (5 * 1024 * 1024) + b'"',
    "digits": b'{"a": ' + b"9" * 5_000 + b"}", "surrogate": b'{"a": "\\ud800"}',
    "masked": b'{"n": [REDACTED]00}', "many": b"[" + b"0," * 1_100_000 + b"0]",
}  # fmt: skip
_PLANTED = ("artifacts", "artifacts/x__AAAAAAA", "agent", "agent/pass__AAAAAAA", "verifier", "steps/one", "a/b/c/d")
_NAMES = (
    MARKUP.replace("/", ""), "a b", "-rf", "..x", "x" * 250, "trial\nname", "naïve__AAAAAAA", "%00", "$(id)",
)  # fmt: skip
_FILES = ("result.json", "config.json", "lock.json", "agent/trajectory.json", "verifier/reward.json")


def _variants() -> Iterator[tuple[str, Change]]:
    for place in PLACES:
        for word, value in ODD_VALUES.items():
            yield f"{'.'.join(place)}={word}", _at(place, value)
    for name in _FILES:
        for word, data in _BAD_BYTES.items():
            yield f"{name}:{word}", _bytes(name, data)
        yield f"{name}:link", _replaced(name, lambda path: path.symlink_to("/etc/hostname"))
        yield f"{name}:dangling", _replaced(name, lambda path: path.symlink_to("nowhere"))
        yield f"{name}:loop", _replaced(name, lambda path: path.symlink_to(path.name))
        yield f"{name}:fifo", _replaced(name, lambda path: os.mkfifo(path))
        yield f"{name}:folder", _replaced(name, lambda path: path.mkdir())
    for name in ("result.json", "config.json", "lock.json"):
        for word in ("empty", "cut", "list", "deep", "nan", "large", "bom"):
            yield f"job's {name}:{word}", _of_the_job(name, _BAD_BYTES[word])
        yield f"job's {name}:version", _of_the_job(name, b'{"schema_version": 99}')
    for where in (
        "artifacts",
        "artifacts/x__AAAAAAA",
        "agent",
        "agent/pass__AAAAAAA",
        "verifier",
        "steps/one",
        "a/b/c/d",
    ):
        yield f"planted in {where}", _plant(where)
    for name in (
        MARKUP.replace("/", ""),
        "a b",
        "-rf",
        "..x",
        "x" * 250,
        "trial\nname",
        "naïve__AAAAAAA",
        "%00",
        "$(id)",
    ):
        yield f"folder called {name[:20]!r}", _renamed(name)
    yield "a key twice", _text("result.json", lambda text: text.replace("{", "{" + _DUPLICATE, 1), failing=True)
    yield (
        "rewards twice",
        _text("result.json", lambda text: text.replace('"reward": 0.0', '"reward": 0.0, "reward": 1.0'), failing=True),
    )
    for word in ("NaN", "Infinity", "-Infinity", "1e999", "true", '"1"', "null", "[1]", "{}"):
        yield f"a reward of {word}", _text("result.json", lambda text, word=word: _reward(text, word), failing=True)
    yield "a link to the passing result", _replaced("result.json", _link_to_the_passing)
    yield (
        "a hard link to the passing result",
        _replaced("result.json", lambda path: os.link(_trial(path.parent.parent) / "result.json", path)),
    )
    yield (
        "the passing result word for word",
        lambda job: (_failing(job) / "result.json").write_text(_passing_result(job)) and None,
    )
    yield "a link for the trial's folder", _a_link_for_the_trial
    yield "a trial of another job", _another_jobs_trial
    yield "a trial copied under another name", _copied_under_another_name
    yield "a reward in the verifier's file alone", _unsaid
    yield "nested deeply", _deep
    yield "many files", _many_files
    yield "a sparse file beyond the bound", _sparse
    yield "a name that is no text", _undecodable
    yield "a job without trials", _without_trials


def _copied_result(job: Path) -> None:
    (_failing(job) / "result.json").write_text(_passing_result(job))


def _without_trials(job: Path) -> None:
    for path in job.iterdir():
        if path.is_dir():
            shutil.rmtree(path)


def _reward(text: str, word: str) -> str:
    return text.replace('"reward": 0.0', f'"reward": {word}')


def _unsaid(job: Path) -> None:
    document = json.loads((_failing(job) / "result.json").read_text())
    document["verifier_result"] = None
    (_failing(job) / "result.json").write_text(json.dumps(document))
    (_failing(job) / "verifier").mkdir(exist_ok=True)
    (_failing(job) / "verifier/reward.json").write_text('{"reward": 1.0}')


VARIANTS = dict(_variants())


@pytest.fixture(scope="module")
def plain(jobs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small real job: two trials, one that passed and one that failed."""
    job = copy_of(jobs / "0.26.0-22-policy", tmp_path_factory.mktemp("plain"))
    for path in job.iterdir():
        if path.is_dir() and not path.name.startswith(("pass__", "fail__")):
            shutil.rmtree(path)
    return job


def believed(report: JobReport, job: Path) -> None:
    """Nothing is reported as passed but what the trial's own result says, read by a parser that is not ours."""
    for part in report.experiments:
        for trial in part.trials:
            assert set(trial.badges) <= set(BADGES)
            assert "/" not in trial.folder
            if trial.outcome is not ReportedOutcome.PASSED:
                assert not any(reward.passed for reward in trial.rewards)
                continue
            own = job / trial.folder / "result.json"
            assert own.is_file() and not own.is_symlink() and not own.parent.is_symlink()
            document = json.loads(own.read_text())
            assert document["trial_name"] == trial.folder
            number = document["verifier_result"]["rewards"]["reward"]
            assert type(number) in (int, float) and number >= 1.0
            assert document["exception_info"] is None and document.get("reward_valid") in (None, True)


def test_there_are_many_variants() -> None:
    assert len(VARIANTS) >= 150


@pytest.mark.parametrize("name", VARIANTS)
def test_no_variant_raises_or_passes_what_its_own_result_does_not_say(name: str, plain: Path, tmp_path: Path) -> None:
    job = copy_of(plain, tmp_path)
    VARIANTS[name](job)
    try:
        report = read_job(job)
    except JobRefused as refused:
        assert refused.code.startswith("import.")
    else:
        believed(report, job)


@pytest.mark.django_db
def test_every_variant_is_imported_or_refused_and_no_import_makes_a_run(
    plain: Path, tmp_path: Path, settings: Any
) -> None:
    """No import yields a bucket, a run, a count of one or a verdict: the tables of runs stay as they were."""
    options = {"location": tmp_path / "stored"}
    backend = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": options}
    settings.STORAGES = {**settings.STORAGES, "default": backend}
    olga = person("olga", "operator")
    before = _rows(Run), _rows(Trial)
    # Every kind by itself, and each tenth of the changed places; the reader above saw them all.
    chosen = [name for number, name in enumerate(VARIANTS) if number % 10 == 0 or " " in name]
    for number, name in enumerate(chosen):
        job = copy_of(plain, tmp_path / str(number))
        VARIANTS[name](job)
        try:
            import_job(job, ImportOptions(experiment_id=f"v{number}", artifacts=False), user=olga)
        except BadInput as refused:
            assert refused.code.startswith("import."), name
        shutil.rmtree(tmp_path / str(number))
    assert (_rows(Run), _rows(Trial)) == before == ([], [])
    assert Experiment.objects.count() > 50
    assert not Experiment.objects.exclude(source="imported", trust="reported").exists()
    assert not ExperimentTrial.objects.filter(observed_outcome__isnull=False).exists()
    words = set(ExperimentTrial.objects.values_list("reported_outcome", flat=True).distinct())
    assert words <= {word.value for word in ReportedOutcome}


def _rows(model: type[Model]) -> list[Any]:
    return list(model._default_manager.values())


def test_too_many_trials_are_refused_before_any_is_read(tmp_path: Path) -> None:
    job = tmp_path / "job"
    job.mkdir()
    for number in range(MAX_TRIALS + 1):
        (job / f"t{number}").mkdir()
    with pytest.raises(JobRefused) as refused:
        read_job(job)
    assert refused.value.code == "import.too_many_trials"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(place=st.sampled_from(PLACES), value=_JSON)
def test_whatever_stands_at_a_place_nothing_raises(
    place: tuple[str, ...], value: Any, plain: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    job = copy_of(plain, tmp_path_factory.mktemp("any"))
    _at(place, value)(job)
    try:
        report = read_job(job)
    except JobRefused:
        return
    believed(report, job)
