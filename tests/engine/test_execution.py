"""The stages of a run come in their order; each failure is written down for what it is; the end always follows."""

import errno
import inspect
import time
from pathlib import Path
from typing import Any

import pytest

from runs.checks.readiness import Answer, judge
from runs.containers import EngineError
from runs.engine import execution
from runs.engine.assets import AssetError
from runs.engine.execution import execute
from runs.engine.host.credentials import CredentialError
from runs.engine.host.folder import RunFolder
from runs.engine.network.endpoint_readiness import Readiness
from runs.engine.network.gateway import GatewayError
from runs.engine.preflight.run_preflight import PreflightFailed
from runs.engine.trials.processes import LaunchFailed
from runs.engine.trials.trial_process import Reason
from runs.models import Run
from runs.ownership import Fenced, Journal
from runs.services import lifecycle
from tests.evidence.folders import passing_run
from tests.evidence.rows import run_of

pytestmark = pytest.mark.django_db(transaction=True)

TRIALS = ["trial 1", "trial 2", "trial 3"]
ALL = ["assets", "tasks", "preflight", "credential", "networks", "gateway", "egress", *TRIALS, "conclude"]


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, play: Any) -> None:
    """Let `play` stand for a part, called as the real one can be called: other arguments are a TypeError."""
    real = getattr(execution, name)
    takes = inspect.signature(real)

    def checked(*arguments: Any, **named: Any) -> Any:
        takes.bind(*arguments, **named)
        return play(*arguments, **named)

    monkeypatch.setattr(execution, name, checked)


class Report:
    """An egress report that passed, unless told otherwise."""

    passed, sentence, detail = True, "", ""

    def as_json(self) -> dict[str, Any]:
        return {"passed": self.passed}


class GatewayStandIn:
    address, url, container = "10.0.0.2", "http://model-gateway:8080/v1", type("Container", (), {"id": "1" * 64})()

    run_key = b"run-key"

    def token(self, ordinal: int) -> str:
        return f"token-{ordinal}"

    def follow_transcript(self, trials: Path) -> None:
        pass


class World:
    """The parts that an execution calls. Each notes its turn; `fails` maps a part to what it raises."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[str] = []
        self.fails: dict[str, Exception] = {}
        self.before: dict[str, Any] = {}
        self.secrets: list[str] = []
        self.failure: dict[str, Any] | None = None
        self.report = Report()
        self.told: list[str] = []
        stands = {
            "connect": ("engine", type("Api", (), {"close": lambda _: None})()),
            "remember_engine": ("engine", None),
            "load_assets": ("assets", type("A", (), {"harness": type("H", (), {"path": Path("/none")})()})()),
            "copy_tasks": ("tasks", None),
            "preflight": ("preflight", []),
            "read_credential": ("credential", "sk-secret"),
            "open_networks": ("networks", type("N", (), {"internal": None})()),
            "start_gateway": ("gateway", GatewayStandIn()),
            "prove_egress": ("egress", self.report),
            "write_trial_files": ("files", None),
        }
        for name, (part, answer) in stands.items():
            stand_in(monkeypatch, name, self._part(part, answer))
        stand_in(monkeypatch, "check_readiness", self._ask)
        self.answer: Answer | None = Answer("ok", None, 200)
        self.asked: dict[str, Any] = {}
        world = self

        class Process:
            """A trial's process that ends by itself, or is stopped by the reason that it is given."""

            def __init__(self, *arguments: Any) -> None:
                ordinal = made.bind(*arguments).arguments["ordinal"]
                self.ordinal, self.mono_started = ordinal, 0.0

            def start_early(self) -> None:
                world.play("launch")

            def go(self, token: str) -> None:
                self.mono_started = time.monotonic()
                world.told.append(token)
                world.play(f"trial {self.ordinal}")

            def watch(self, reason_to_stop: Any, on_event: Any) -> Reason:
                return reason_to_stop() or Reason()

            def record(self, reason: Reason, *, interrupted: bool = False) -> None:
                pass

        made = inspect.signature(execution.TrialProcess)
        for name in ("start_early", "go", "watch", "record"):
            real = inspect.signature(getattr(execution.TrialProcess, name))
            assert list(inspect.signature(getattr(Process, name)).parameters) == list(real.parameters), name
        monkeypatch.setattr(execution, "TrialProcess", Process)
        stand_in(monkeypatch, "conclude", self._conclude)

    def _part(self, part: str, answer: Any) -> Any:
        def play(*_: Any, **__: Any) -> Any:
            self.play(part)
            return answer

        return play

    def _ask(self, *_: Any, **asked: Any) -> Readiness:
        """Asked beside the egress probe, so its turn is not noted."""
        self.asked = asked
        if "question" in self.fails:
            raise self.fails["question"]
        return Readiness(tuple(judge(self.answer, has_credential=asked["has_credential"])), 0.1)

    def play(self, part: str) -> None:
        if part not in ("engine", "files", "launch"):
            self.steps.append(part)
        if part in self.before:
            self.before[part]()
        if part in self.fails:
            raise self.fails[part]

    def _conclude(self, run_id: str, *, secrets: Any, gateway: Any) -> None:
        self.steps.append("conclude")
        self.secrets, self.failure = secrets.values, secrets.failure


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


@pytest.fixture(autouse=True)
def data(settings: Any, tmp_path: Path) -> None:
    settings.DATA = tmp_path


@pytest.fixture
def run(tmp_path: Path) -> Run:
    case = passing_run()
    for ordinal, task in enumerate(case.spec["tasks"], 1):
        task["ordinal"] = ordinal
    made, _ = run_of(case, tmp_path / "elsewhere")
    return made


def facts(run: Run, tmp_path: Path) -> dict[str, Any]:
    return RunFolder.of(tmp_path, run.key).read_facts()


def test_the_stages_come_in_their_order_and_the_end_follows(world: World, run: Run, tmp_path: Path) -> None:
    execute(run.key)
    assert world.steps == ALL
    assert world.told == ["token-1", "token-2", "token-3"]
    assert world.secrets == ["sk-secret", b"run-key".hex(), *(f"token-{number}" for number in (1, 2, 3, 4))]
    assert facts(run, tmp_path)["failure"] is None and facts(run, tmp_path)["probe"] == {"passed": True}


@pytest.mark.parametrize("altered", ["another spec", "another byte", "no spec", "another version", "a wrong hash"])
def test_a_spec_that_is_not_the_confirmed_one_ends_the_run_before_anything_is_created(
    world: World, run: Run, tmp_path: Path, altered: str
) -> None:
    texts = {
        "another spec": run.spec.replace('"max_steps":8', '"max_steps":9'),
        "another byte": run.spec + " ",
        "no spec": "{}",
        "another version": run.spec.replace("run-spec/v1", "run-spec/v2"),
    }
    rows = {name: getattr(run, name) for name in ("profile", "bundle", "endpoint", "worker")}
    spec, confirmed = texts.get(altered, run.spec), "0" * 64 if altered == "a wrong hash" else run.spec_sha256
    stored = Run.objects.create(**rows, spec=spec, spec_sha256=confirmed, count_requested=3)
    execute(stored.key)
    assert world.steps == ["conclude"] and not RunFolder.of(tmp_path, stored.key).path.exists()
    assert world.failure is not None
    assert (world.failure["class"], world.failure["code"]) == ("integrity", "integrity.spec_mismatch")


def test_a_run_that_is_not_queued_is_left_alone(world: World, run: Run) -> None:
    execute(run.key)
    world.steps.clear()
    execute(run.key)
    assert world.steps == []


@pytest.mark.parametrize(
    ("part", "error", "stage", "failure_class", "code"),
    [
        ("engine", EngineError("engine_unreachable", "s", "d"), "preflight", "worker_runtime", "engine_unreachable"),
        ("assets", AssetError("assets.not_prepared", "s", "d"), "preflight", "worker_runtime", "assets.not_prepared"),
        ("tasks", PreflightFailed("integrity", "bundle.changed", "s"), "preflight", "integrity", "bundle.changed"),
        ("launch", LaunchFailed("d"), "preflight", "worker_runtime", "launch_failed"),
        ("preflight", PreflightFailed("worker_runtime", "disk", "s"), "preflight", "worker_runtime", "disk"),
        ("credential", CredentialError("credential.missing", "s"), "gateway", "worker_runtime", "credential.missing"),
        ("networks", EngineError("engine_refused", "s", "d"), "gateway", "worker_runtime", "engine_refused"),
        ("gateway", GatewayError("not_ready", "d"), "gateway", "worker_runtime", "gateway.not_ready"),
        ("egress", Fenced("fenced", "s", "d"), "probe", "worker_runtime", "fenced"),
        ("files", OSError(errno.ENOSPC, "full"), "trial", "worker_runtime", "worker_runtime.disk_full"),
        ("files", OSError(errno.EIO, "broken"), "trial", "worker_runtime", "worker_runtime.files"),
        ("preflight", KeyError("surprise"), "preflight", "harness", "harness.unexpected"),
    ],
)
def test_a_stage_that_fails_is_written_down_and_nothing_further_starts(
    world: World, run: Run, tmp_path: Path, part: str, error: Exception, stage: str, failure_class: str, code: str
) -> None:
    world.fails[part] = error
    execute(run.key)
    failure = facts(run, tmp_path)["failure"]
    assert (failure["stage"], failure["class"], failure["code"]) == (stage, failure_class, code)
    assert world.failure == failure
    place = ALL.index(part) + 1 if part in ALL else len(world.steps) - 1
    assert world.steps == [*ALL[:place], "conclude"] and "trial 2" not in world.steps


def test_a_network_that_is_not_confined_ends_the_run(world: World, run: Run, tmp_path: Path) -> None:
    world.report.passed, world.report.sentence = False, "It reaches the host."
    execute(run.key)
    assert world.steps == [*ALL[: ALL.index("egress") + 1], "conclude"]
    assert facts(run, tmp_path)["failure"]["code"] == "egress.not_confined"


@pytest.mark.parametrize(
    ("answer", "failure_class", "code"),
    [
        (Answer("upstream_error", "status", 401), "authentication", "endpoint.auth_refused"),
        (Answer("upstream_error", "unreachable"), "routing", "endpoint.unreachable"),
        (Answer("upstream_error", "status", 503), "serving_runtime", "endpoint.not_ready"),
        (None, "worker_runtime", "endpoint.not_asked"),
    ],
)
def test_an_endpoint_that_is_not_ready_ends_the_run_with_the_class_of_who_must_act(
    world: World, run: Run, tmp_path: Path, answer: Answer | None, failure_class: str, code: str
) -> None:
    world.answer = answer
    execute(run.key)
    assert world.steps == [*ALL[: ALL.index("egress") + 1], "conclude"]
    failure = facts(run, tmp_path)["failure"]
    assert (failure["stage"], failure["class"], failure["code"]) == ("probe", failure_class, code)
    assert code in {check["code"] for check in facts(run, tmp_path)["readiness"]["checks"]}


def test_a_slow_endpoint_is_noted_and_its_trials_start(world: World, run: Run, tmp_path: Path) -> None:
    world.answer = Answer("refused", "client_gone")
    execute(run.key)
    assert world.steps == ALL and facts(run, tmp_path)["failure"] is None
    assert any("No answer came within 5 s." in line.text for line in run.log_lines.all())


def test_the_question_is_asked_under_a_number_that_no_trial_has(world: World, run: Run) -> None:
    execute(run.key)
    assert world.asked["trial"] == len(TRIALS) + 1 and f"token-{len(TRIALS) + 1}" not in world.told
    assert f"token-{len(TRIALS) + 1}" in world.secrets


def test_an_engine_that_fails_while_the_endpoint_is_asked_is_the_workers_failure(
    world: World, run: Run, tmp_path: Path
) -> None:
    world.fails["question"] = EngineError("engine_timeout", "The engine did not answer in time.", "private")
    execute(run.key)
    assert facts(run, tmp_path)["failure"]["code"] == "engine_timeout"
    assert world.steps == [*ALL[: ALL.index("egress") + 1], "conclude"]


@pytest.mark.parametrize("part", ["tasks", "preflight", "gateway", "egress", "trial 1", "trial 2"])
def test_a_cancellation_at_any_point_starts_no_further_stage(world: World, run: Run, tmp_path: Path, part: str) -> None:
    world.before[part] = lambda: lifecycle.request_cancel(run.pk, user=None)
    execute(run.key)
    after = {"tasks": "preflight", "networks": "gateway"}.get(part, part)  # a stage that was entered is not cut
    assert world.steps == [*ALL[: ALL.index(after) + 1], "conclude"]
    assert facts(run, tmp_path)["failure"] is None


@pytest.mark.parametrize("part", ["egress", "trial 1", "trial 3"])
def test_past_the_runs_own_limit_nothing_further_starts(world: World, run: Run, tmp_path: Path, part: str) -> None:
    world.before[part] = lambda: _age(world)
    execute(run.key)
    assert world.steps == [*ALL[: ALL.index(part) + 1], "conclude"]
    assert facts(run, tmp_path)["deadline"] == "run"


def _age(world: World) -> None:
    execution.ENDING_RESERVE_S, world.reserve = 10_000.0, execution.ENDING_RESERVE_S  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def _same_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "ENDING_RESERVE_S", execution.ENDING_RESERVE_S)


def test_a_trial_past_its_limit_does_not_end_the_run(
    world: World, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Reason] = []
    record = execution.TrialProcess.record
    monkeypatch.setattr(
        execution.TrialProcess, "record", lambda self, reason: seen.append(reason) or record(self, reason)
    )
    real = execution.TrialProcess.go

    def late(self: Any, token: str) -> None:
        real(self, token)
        self.mono_started -= 10_000 if self.ordinal == 1 else 0

    monkeypatch.setattr(execution.TrialProcess, "go", late)
    execute(run.key)
    assert [reason.deadline for reason in seen] == ["trial", None, None]
    assert world.steps == ALL


def test_a_disk_that_is_full_at_the_first_write_is_said_so(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Journal, "create", full)
    execute(run.key)
    assert world.steps == ["conclude"]
    assert world.failure is not None
    assert (world.failure["class"], world.failure["code"]) == ("worker_runtime", "worker_runtime.disk_full")


def test_a_failure_that_cannot_be_written_down_is_still_handed_to_the_end(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def break_the_disk() -> None:
        monkeypatch.setattr(RunFolder, "update_facts", full)

    world.before["preflight"] = break_the_disk
    world.fails["preflight"] = OSError(errno.ENOSPC, "No space left on device")
    execute(run.key)
    assert world.steps[-1] == "conclude" and world.failure is not None
    assert world.failure["code"] == "worker_runtime.disk_full"
