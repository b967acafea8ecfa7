"""The one function that resolves a spec: equal input gives equal bytes, and everything that runs is bound."""

import copy
import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsite.lib.canonical import canonical_bytes, content_sha256, walk
from benchsite.lib.problems import DocumentError
from runs.documents.bundle.manifest import ROLES, load_manifest
from runs.documents.bundle.packaged import ENVIRONMENT_SMOKE, read_bundle, read_profile
from runs.documents.ceilings import Phases
from runs.documents.endpoints import parse_endpoint
from runs.documents.profile import v2
from runs.documents.profile.loading import load_profile
from runs.documents.run_spec import MAX_SPEC_BYTES, load_spec
from runs.documents.spec_inputs import EndpointVersion, HarnessIdentity, ImageIdentity, WorkerIdentity
from runs.documents.specs import phase_seconds, resolve_spec, spec_difference
from tests.documents import samples


def inputs(**changes: Any) -> dict[str, Any]:
    """A complete, valid input of `resolve_spec`."""
    bundle = read_bundle(ENVIRONMENT_SMOKE)
    images = {
        role: ImageIdentity(f"sha256:{digit * 64}", getattr(bundle.manifest.images, role).recipe_sha256)
        for role, digit in zip(ROLES, "123", strict=True)
    }
    return {
        "profile": read_profile(ENVIRONMENT_SMOKE),
        "bundle": bundle,
        "harness": HarnessIdentity("4" * 64, "5" * 64, "0.22.0", "mini-swe-agent", "2.4.6", "6" * 64, "3.12.1"),
        "images": images,
        "worker": WorkerIdentity("local", "7" * 64),
        "endpoint": EndpointVersion(parse_endpoint(samples.endpoint()).record, 1),
    } | changes


def refused(**changes: Any) -> list[tuple[str, str]]:
    with pytest.raises(DocumentError) as caught:
        resolve_spec(**inputs(**changes))
    return [(problem.code, problem.path) for problem in caught.value.problems]


def with_profile(change: samples.Change) -> dict[str, Any]:
    document = samples.changed(samples.profile_v2(), change, rehash=True)
    return {"profile": load_profile(canonical_bytes(document))}


def test_the_same_input_gives_the_same_bytes_whoever_asks_and_in_whatever_order():
    asked = resolve_spec(**inputs(tasks=["file-tree", "ledger-totals"], max_steps=8))
    again = resolve_spec(**inputs(tasks=("ledger-totals", "file-tree"), max_steps=8))
    assert asked.canonical == again.canonical
    assert asked.spec_sha256 == again.spec_sha256
    assert [task["name"] for task in asked.document["tasks"]] == ["ledger-totals", "file-tree"]


def test_a_narrowing_to_what_the_profile_says_anyway_changes_nothing():
    suite = inputs()["profile"].v2.suites.environment
    same = {"tasks": suite.cases, "max_steps": suite.max_steps, "max_trial_seconds": suite.max_trial_seconds}
    assert resolve_spec(**inputs(**same)).canonical == resolve_spec(**inputs()).canonical


def test_every_hash_control_and_limit_stands_in_the_spec():
    document = resolve_spec(**inputs()).document
    assert set(document) == {
        "schema",
        "suite",
        "profile",
        "bundle",
        "harness",
        "images",
        "worker",
        "endpoint",
        "tasks",
        "controls",
        "limits",
        "scoring",
        "requirements",
        "evidence_version",
    }
    assert document["evidence_version"] == 2
    assert document["controls"] == {
        "max_steps": 32,
        "max_completion_tokens": 4096,
        "max_concurrent_trials": 1,
        "max_attempts": 1,
        "retries": 0,
        "model_attempts": 1,
        "request_timeout_s": 120,
        "drop_params": False,
        "verification": True,
        "install_only": False,
        "sampling": {"temperature": "agent", "top_p": "agent", "seed": "agent"},
    }
    assert document["requirements"] == {"container_required": True, "min_free_disk_bytes": 2 << 30}
    assert document["images"] == {role: f"sha256:{digit * 64}" for role, digit in zip(ROLES, "123", strict=True)}
    assert document["scoring"]["pass_rate_floor"] == 1.0


def test_the_phases_fit_the_trial_and_the_trials_fit_the_run():
    limits = resolve_spec(**inputs()).document["limits"]
    phases = ("environment_start_s", "agent_setup_s", "agent_s", "verifier_s")
    assert sum(limits[phase] for phase in phases) <= limits["trial_s"] <= 600
    assert 3 * limits["trial_s"] < limits["run_s"] <= 1800


@given(st.integers(10, 600), st.builds(Phases, **dict.fromkeys(Phases.model_fields, st.integers(1, 600))))
def test_the_phases_of_any_trial_sum_up_to_no_more_than_it_and_each_gets_some_time(trial_s, phases):
    times = phase_seconds(trial_s, phases)
    assert sum(times.values()) <= trial_s
    assert all(0 < times[phase] <= getattr(phases, phase) for phase in times)


@pytest.mark.parametrize(
    ("narrowing", "expected"),
    [
        ({"max_steps": 33}, ("spec.wider_than_profile", "max_steps")),
        ({"max_steps": 0}, ("spec.below_minimum", "max_steps")),
        ({"max_steps": True}, ("spec.wrong_type", "max_steps")),
        ({"max_steps": 8.0}, ("spec.wrong_type", "max_steps")),
        ({"max_trial_seconds": 541}, ("spec.wider_than_profile", "max_trial_seconds")),
        ({"max_trial_seconds": 9}, ("spec.below_minimum", "max_trial_seconds")),
        ({"max_trial_seconds": "60"}, ("spec.wrong_type", "max_trial_seconds")),
        ({"tasks": []}, ("spec.no_tasks", "tasks")),
        ({"tasks": ["ledger-totals", "ledger-totals"]}, ("spec.task_repeated", "tasks[1]")),
        ({"tasks": ["nonesuch"] * 100_000}, ("spec.too_many_tasks", "tasks")),
        ({"tasks": ["ledger-totals", "Ledger-Totals"]}, ("spec.task_not_in_profile", "tasks[1]")),
        ({"tasks": [".."]}, ("spec.task_not_in_profile", "tasks[0]")),
        ({"tasks": ["x" * 200]}, ("spec.task_not_in_profile", "tasks[0]")),
    ],
)
def test_a_run_may_narrow_its_profile_and_never_widen_it(narrowing, expected):
    assert refused(**narrowing) == [expected]


def test_narrower_limits_are_taken():
    document = resolve_spec(**inputs(tasks=["config-merge"], max_trial_seconds=60, max_steps=3)).document
    assert document["controls"]["max_steps"] == 3
    assert document["limits"]["trial_s"] == 60
    assert [(task["ordinal"], task["name"]) for task in document["tasks"]] == [(1, "config-merge")]


def test_trials_that_do_not_fit_the_runs_time_are_refused_and_not_cut():
    longer = with_profile(samples.put("suites", "environment", "max_trial_seconds", value=600))
    assert refused(**longer) == [("spec.time_does_not_fit", "max_trial_seconds")]
    assert resolve_spec(**inputs(**longer, tasks=["file-tree"])).document["limits"]["trial_s"] == 600


def test_a_v1_profile_cannot_be_started():
    profile = load_profile((samples.PROFILES_V1 / "scout.json").read_bytes())
    assert refused(profile=profile) == [("suite_not_installed", "suites")]


def test_a_bundle_that_the_profile_does_not_bind_is_refused():
    document = copy.deepcopy(samples.manifest())
    document["description"] = "Another."
    assert refused(bundle=load_manifest(canonical_bytes(document))) == [
        ("spec.bundle_mismatch", "bundle.manifest_sha256")
    ]


def test_a_case_that_the_bundle_does_not_know_is_refused():
    change = samples.put("suites", "environment", "cases", value=["ledger-totals", "no-such-task"])
    assert refused(**with_profile(change)) == [("spec.unknown_task", "suites.environment.cases[1]")]


def test_another_agent_in_the_harness_than_in_the_bundle_is_refused():
    harness = dataclasses.replace(inputs()["harness"], agent_version="2.4.7")
    assert refused(harness=harness) == [("spec.agent_mismatch", "harness.agent_version")]


def test_images_are_pinned_by_id_and_built_from_the_bundles_recipes():
    images = inputs()["images"]
    recipe = images["agent"].recipe_sha256
    assert refused(images={**images, "agent": ImageIdentity("benchsite-agent:latest", recipe)}) == [
        ("mutable_image", "images.agent")
    ]
    assert refused(images={**images, "agent": ImageIdentity(f"sha256:{'1' * 64}", "0" * 64)}) == [
        ("spec.recipe_mismatch", "images.agent")
    ]
    assert refused(images={"agent": images["agent"]}) == [
        ("spec.no_image", "images.gateway"),
        ("spec.no_image", "images.verifier"),
    ]


def test_what_is_missing_on_the_worker_is_named_all_at_once():
    harness = dataclasses.replace(inputs()["harness"], lock_sha256="", tree_sha256="")
    assert refused(harness=harness, worker=WorkerIdentity("local", ""), images={}) == [
        ("spec.no_harness", "harness.lock_sha256"),
        ("spec.no_harness", "harness.tree_sha256"),
        ("spec.no_image", "images.agent"),
        ("spec.no_image", "images.gateway"),
        ("spec.no_image", "images.verifier"),
        ("spec.no_capabilities", "worker.capability_sha256"),
    ]


def test_an_endpoint_that_does_not_declare_a_used_control_is_refused():
    record = parse_endpoint({**samples.endpoint(), "controls": ["seed"]}).record
    assert refused(endpoint=EndpointVersion(record, 1)) == [("spec.control_not_declared", "endpoint.controls")]


def test_a_stored_spec_is_read_back_and_a_changed_one_refused():
    spec = resolve_spec(**inputs())
    assert load_spec(spec.canonical, expected_sha256=spec.spec_sha256) == spec
    for data, code in [
        (spec.canonical + b"\n", "spec.not_canonical"),
        (spec.canonical.replace(b'"max_steps":32', b'"max_steps":31'), "spec.changed"),
        (spec.canonical.replace(b'"retries":0', b'"retries":1'), "bad_spec.above_maximum"),
        (spec.canonical.replace(b"run-spec/v1", b"run-spec/v2"), "unknown_schema"),
    ]:
        with pytest.raises(DocumentError) as caught:
            load_spec(data, expected_sha256=spec.spec_sha256)
        assert caught.value.code == code


def test_a_spec_over_the_bound_is_refused():
    worker = WorkerIdentity("w" * MAX_SPEC_BYTES, "7" * 64)
    assert refused(worker=worker) == [("spec.too_large", "")]


def test_a_credential_that_found_its_way_into_a_spec_is_refused():
    assert refused(worker=WorkerIdentity("sk-SENTINEL-12345", "7" * 64)) == [("credential_in_plaintext", "worker.name")]


def test_the_difference_of_two_specs_is_listed_with_old_and_new():
    old = resolve_spec(**inputs()).document
    new = resolve_spec(**inputs(max_steps=8, tasks=["ledger-totals", "config-merge"])).document
    found = {difference.path: (difference.old, difference.new) for difference in spec_difference(old, new)}
    assert found["controls.max_steps"] == ("32", "8")
    assert found["tasks[2].name"] == ('"file-tree"', "")
    assert set(found) == {
        "controls.max_steps",
        "limits.run_s",
        "tasks[2].checksum",
        "tasks[2].files_sha256",
        "tasks[2].name",
        "tasks[2].ordinal",
    }
    assert spec_difference(old, copy.deepcopy(old)) == []


SPEC = json.loads(resolve_spec(**inputs()).canonical)
LEAVES = [location for location, value in walk(SPEC) if not isinstance(value, dict | list)]


@given(st.sampled_from(LEAVES), st.data())
def test_a_change_of_any_value_of_a_spec_changes_its_hash_and_is_shown(location, data):
    changed = copy.deepcopy(SPEC)
    place = changed
    for part in location[:-1]:
        place = place[part]
    old = place[location[-1]]
    place[location[-1]] = data.draw(
        st.one_of(st.integers(-5, 5), st.booleans(), st.none(), st.text("abc", max_size=3), st.floats(0, 1)).filter(
            lambda new: (type(new), new) != (type(old), old)
        )
    )
    assert canonical_bytes(changed) != canonical_bytes(SPEC)
    assert len(spec_difference(SPEC, changed)) == 1


SOURCES = {
    "harness lock": lambda: {"harness": dataclasses.replace(inputs()["harness"], lock_sha256="0" * 64)},
    "harness tree": lambda: {"harness": dataclasses.replace(inputs()["harness"], tree_sha256="0" * 64)},
    "adapter": lambda: {"harness": dataclasses.replace(inputs()["harness"], adapter_sha256="0" * 64)},
    "interpreter": lambda: {"harness": dataclasses.replace(inputs()["harness"], python="3.12.2")},
    "worker": lambda: {"worker": WorkerIdentity("other", "7" * 64)},
    "capabilities": lambda: {"worker": WorkerIdentity("local", "0" * 64)},
    "endpoint version": lambda: {"endpoint": EndpointVersion(inputs()["endpoint"].record, 2)},
    "endpoint model": lambda: _endpoint(model="other"),
    "served model": lambda: _endpoint(served_model="other"),
    "endpoint address": lambda: _endpoint(base_url="http://models.example:8001/v1"),
    "credential": lambda: _endpoint(credential={"kind": "env", "name": "OTHER_KEY"}),
    "request timeout": lambda: _endpoint(request_timeout_s=60),
    "scripted": lambda: _endpoint(scripted=True),
    "description of the profile": lambda: with_profile(samples.put("description", value="Other.")),
    "floor": lambda: with_profile(samples.put("suites", "environment", "scoring", "pass_rate_floor", value=0.5)),
    "steps": lambda: {"max_steps": 31},
    "tokens": lambda: with_profile(samples.put("suites", "environment", "max_completion_tokens", value=4095)),
    "trial": lambda: {"max_trial_seconds": 539},
    "tasks": lambda: {"tasks": ["ledger-totals", "config-merge"]},
    "order of tasks": lambda: with_profile(
        samples.put("suites", "environment", "cases", value=["file-tree", "config-merge", "ledger-totals"])
    ),
    **{
        f"{role} image": lambda role=role: {
            "images": inputs()["images"]
            | {role: ImageIdentity(f"sha256:{'0' * 64}", inputs()["images"][role].recipe_sha256)}
        }
        for role in ROLES
    },
}


def _endpoint(**fields: Any) -> dict[str, Any]:
    return {"endpoint": EndpointVersion(parse_endpoint({**samples.endpoint(), **fields}).record, 1)}


@pytest.mark.parametrize("source", SOURCES)
def test_a_change_of_anything_that_goes_into_a_run_changes_the_specs_hash(source):
    changed = resolve_spec(**inputs(**SOURCES[source]()))
    original = resolve_spec(**inputs())
    assert changed.spec_sha256 != original.spec_sha256
    assert spec_difference(original.document, changed.document)


def test_a_changed_byte_of_a_bundle_changes_the_specs_hash_through_manifest_and_profile():
    manifest = samples.manifest()
    manifest["ceilings"]["agent"]["pids"] += 1
    bundle = load_manifest(canonical_bytes(manifest))
    document = samples.changed(
        samples.profile_v2(),
        samples.put("suites", "environment", "task_bundle", "manifest_sha256", value=bundle.manifest_sha256),
        rehash=True,
    )
    profile = load_profile(canonical_bytes(document))
    changed = resolve_spec(**inputs(profile=profile, bundle=bundle))
    paths = {found.path for found in spec_difference(resolve_spec(**inputs()).document, changed.document)}
    assert paths == {
        "bundle.manifest_sha256",
        "profile.content_sha256",
        "profile.file_sha256",
        "limits.agent.pids",
    }


def test_the_limits_of_the_profile_are_those_of_the_design():
    assert (v2.MAX_TASKS, v2.MAX_STEPS, v2.MAX_COMPLETION_TOKENS) == (3, 32, 4096)
    assert (v2.MAX_TRIAL_SECONDS, v2.MAX_RUN_SECONDS) == (600, 1800)
    assert content_sha256(samples.profile_v2()) == samples.profile_v2()["content_sha256"]
