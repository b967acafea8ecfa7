"""Harbor is told every control, and the attendant every limit; nothing is left to a default."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from benchsite.lib.folder import Folder
from evidence.trial.configured_checks import configuration_checks
from runs.attendant.plan import load_plan
from runs.containers import OwnedNetwork
from runs.documents.run_spec import RunSpec
from runs.engine.trials.harbor_config import (
    LimitsDoNotFit,
    environment_plan,
    harbor_config,
    new_placeholder,
    write_trial_files,
)
from runs.ownership import Intent, Role
from tests.spec_documents import run_spec

NETWORK = OwnedNetwork("d" * 64, "net", Intent("r", "o", "n", Role.NETWORK, "network"))


def spec(changes: dict[str, Any] | None = None) -> RunSpec:
    return run_spec("first", "second", changes=changes)


def config(**changes: Any) -> dict[str, Any]:
    return harbor_config(
        spec(changes),
        trial_directory=Path("/runs/r/trials/1"),
        task_directory=Path("/runs/r/tasks/first"),
        gateway_url="http://model-gateway:8080/v1",
        placeholder="placeholder",
    )


def test_one_attempt_one_trial_no_retry_and_verification_are_written_out() -> None:
    told = config()
    assert told["retry"]["max_retries"] == 0
    assert (told["n_attempts"], told["n_concurrent_trials"], told["install_only"]) == (1, 1, False)
    assert told["verifier"]["disable"] is False
    assert {told[name] for name in told if name.endswith("multiplier")} == {1.0}
    assert sum(name.endswith("multiplier") for name in told) == 5


def test_the_agent_has_its_exact_version_limits_and_no_hidden_repeats() -> None:
    (agent,) = config()["agents"]
    assert (agent["name"], agent["model_name"]) == ("mini-swe-agent", "openai/alias")
    assert (agent["override_timeout_sec"], agent["override_setup_timeout_sec"]) == (360.0, 60.0)
    assert agent["kwargs"]["version"] == "2.4.6"
    assert agent["kwargs"]["max_tokens"] == 4096
    settings = agent["kwargs"]["config"]
    assert settings["agent"] == {"step_limit": 32}
    assert settings["model"]["model_kwargs"] == {"max_retries": 0, "timeout": 70, "drop_params": False}
    assert "reasoning_effort" not in agent["kwargs"]


def test_a_sampling_control_that_is_fixed_is_given_to_the_agent_and_no_other() -> None:
    (agent,) = config(**{"controls.sampling": {"temperature": 0, "seed": 7}})["agents"]
    kwargs = agent["kwargs"]["config"]["model"]["model_kwargs"]
    assert (kwargs["temperature"], kwargs["seed"]) == (0.0, 7) and "top_p" not in kwargs


def test_the_agents_environment_holds_the_placeholder_and_the_gateway_and_nothing_else() -> None:
    (agent,) = config()["agents"]
    assert agent["env"] == {
        "OPENAI_API_KEY": "placeholder",
        "OPENAI_BASE_URL": "http://model-gateway:8080/v1",
    }


def test_a_placeholder_cannot_be_guessed_and_is_not_short_enough_to_be_found_in_a_result() -> None:
    first, second = new_placeholder(), new_placeholder()
    assert first != second
    assert len(first) > 40


def test_our_provider_gets_only_the_path_of_its_plan() -> None:
    environment = config()["environment"]
    assert environment["import_path"] == "runs.harness.environment:OwnedEnvironment"
    assert environment["kwargs"] == {"plan": "/runs/r/trials/1/environment.json"}
    assert environment["delete"] is True


def test_phases_that_take_longer_than_the_trial_may_are_refused() -> None:
    config(**{"limits.agent_s": 360})
    with pytest.raises(LimitsDoNotFit) as caught:
        config(**{"limits.agent_s": 361})
    assert caught.value.code == "harness.limits_do_not_fit"


def test_the_plan_holds_each_roles_image_limits_and_place() -> None:
    plan = environment_plan(
        spec(),
        ordinal=2,
        run_id="r",
        journal_directory=Path("/runs/r"),
        network=NETWORK,
        gateway_address="10.0.0.2",
        placeholder="placeholder",
    )
    agent, verifier = plan["roles"]["agent"], plan["roles"]["verifier"]
    assert (plan["trial"], plan["task"]) == (2, "second")
    assert (agent["image_id"], agent["network_id"], agent["gateway_ip"]) == (
        spec().images.agent,
        "d" * 64,
        "10.0.0.2",
    )
    assert verifier["image_id"] == spec().images.verifier
    assert not any(name.startswith(("network", "gateway")) for name in verifier)


def written(run: Path, **changes: Any) -> Path:
    trial = run / "trials" / "1"
    trial.mkdir(parents=True, exist_ok=True)
    write_trial_files(
        spec(),
        ordinal=1,
        trial_directory=trial,
        task_directory=run / "tasks" / "first",
        network=NETWORK,
        gateway_address="10.0.0.2",
        gateway_url="http://model-gateway:8080/v1",
    )
    return trial


def test_the_attendant_understands_the_plan_that_is_written_for_it(tmp_path: Path) -> None:
    trial = written(tmp_path / ("0" * 32))
    plan = load_plan(trial / "environment.json")
    told = json.loads((trial / "config.json").read_text())
    assert plan.placeholder == told["agents"][0]["env"]["OPENAI_API_KEY"]
    assert plan.journal_directory == tmp_path / ("0" * 32)
    assert (plan.run_id, plan.directory) == ("0" * 32, trial)
    assert plan.roles["agent"].gateway_host == "model-gateway"


def test_the_judge_expects_exactly_what_is_written_here(tmp_path: Path) -> None:
    """Both say it on their own, since a mistake of the one is to be a difference for the other."""
    run = tmp_path / ("0" * 32)
    written(run)
    proofs = configuration_checks(Folder(run), "trials/1", spec(), run.name, None, "first")
    assert len(proofs) > 15
    assert [proof for proof in proofs if not proof.ok] == []


def test_the_files_are_private_and_a_trial_is_never_written_over_a_job(tmp_path: Path) -> None:
    trial = written(tmp_path / "run")
    for name in ("config.json", "environment.json"):
        assert stat.S_IMODE((trial / name).stat().st_mode) == 0o600
    (trial / "job").mkdir()
    with pytest.raises(FileExistsError):
        written(tmp_path / "run")
