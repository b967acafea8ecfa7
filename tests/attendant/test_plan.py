"""The attendant follows only a plan that it understands completely."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runs.attendant.plan import MAX_PLAN_BYTES, Plan, load_plan
from runs.engine.trials.harbor_config import CONDUCT
from runs.wire.failures import StartRefused

IMAGE = "sha256:" + "a" * 64


def plan(**changes: Any) -> dict[str, Any]:
    limits = {"cpus": 1.0, "memory_bytes": 10, "pids": 5, "nofile": 6, "tmpfs": {"/tmp": 1}}
    return {
        "schema": "benchsite.environment-plan/v2",
        "run_id": "r",
        "trial": 1,
        "task": "t",
        "journal_directory": "/runs/r",
        "roles": {"agent": {"image_id": IMAGE, **limits}, "verifier": {"image_id": IMAGE, **limits}},
        "bounds": {"exec_output_bytes": 1, "transfer_bytes": 2, "transfer_files": 3},
        "placeholder": "p",
        "conduct": CONDUCT,
        "deadlines": {"setup": 1, "agent": 2, "verifier": 3},
        **changes,
    }


def loaded(tmp_path: Path, document: object) -> Plan:
    path = tmp_path / "environment.json"
    path.write_text(json.dumps(document))
    return load_plan(path)


def test_a_plan_is_read_with_its_own_folder_as_the_trials(tmp_path: Path) -> None:
    found = loaded(tmp_path, plan())
    assert (found.directory, found.trial, found.bounds.transfer_files) == (tmp_path, 1, 3)
    assert found.roles["agent"].tmpfs == {"/tmp": 1}


@pytest.mark.parametrize(
    "document",
    [
        pytest.param([], id="no object"),
        pytest.param(plan(schema="benchsite.environment-plan/v1"), id="another version"),
        pytest.param(plan(conduct={}), id="no conduct"),
        pytest.param(plan(deadlines={"agent": 1}), id="a deadline too few"),
        pytest.param(plan(conduct={**CONDUCT, "agent": {**CONDUCT["agent"], "more": 1}}), id="unknown conduct"),
        pytest.param(plan(extra=1), id="unknown field"),
        pytest.param({**plan(), "roles": {"agent": {"image_id": IMAGE}}}, id="role without limits"),
        pytest.param({**plan(), "roles": {"agent": {**plan()["roles"]["agent"], "gpu": 1}}}, id="unknown limit"),
        pytest.param(
            {**plan(), "roles": {"agent": {**plan()["roles"]["agent"], "image_id": "agent:latest"}}},
            id="a tag",
        ),
        pytest.param({name: value for name, value in plan().items() if name != "bounds"}, id="no bounds"),
    ],
)
def test_a_plan_of_another_form_is_refused(tmp_path: Path, document: object) -> None:
    with pytest.raises(StartRefused) as caught:
        loaded(tmp_path, document)
    assert caught.value.code == "plan.malformed"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda text: text.replace('"trial"', '"trial": 2, "trial"').encode(), id="key twice"),
        pytest.param(lambda text: text.replace('"trial": 1', '"trial": NaN').encode(), id="no number"),
        pytest.param(lambda text: text.encode("utf-16"), id="UTF-16"),
        pytest.param(lambda text: text.encode("utf-8-sig"), id="byte order mark"),
        pytest.param(lambda text: text.encode() + b" " * MAX_PLAN_BYTES, id="too large"),
    ],
)
def test_a_plan_that_another_reader_could_read_otherwise_is_refused(
    tmp_path: Path, change: Callable[[str], bytes]
) -> None:
    path = tmp_path / "environment.json"
    data = change(json.dumps(plan()))
    assert data != json.dumps(plan()).encode()
    path.write_bytes(data)
    with pytest.raises(StartRefused) as caught:
        load_plan(path)
    assert caught.value.code == "plan.malformed"


def test_a_missing_plan_is_a_refusal_not_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(StartRefused) as caught:
        load_plan(tmp_path / "none.json")
    assert caught.value.code == "plan.unreadable"
