"""Profiles of both versions: dispatch, hashes, bytes (design 6)."""

import json
import re
from pathlib import Path

import pytest

from benchsite.lib.canonical import canonical_bytes, content_sha256, sha256
from benchsite.lib.problems import DocumentError
from runs.documents.bundle.packaged import ENVIRONMENT_SMOKE
from runs.documents.profile import loading, v1, v2
from tests.documents import samples

KNOWN = {
    "smoke": "090745451099214af7c222f736769737911453fe9e9c5d14ffc04f5a4a3e4586",
    "scout": "fce0e6e1e7497585bdfc6f76507d3baaff99a6b4f174d841d268de20c68de7f6",
}
KNOWN_FILES = {
    "smoke": "b43f6a199164c2cbb92bde24672beebd781f58851d2d1bb944fc3d4d24a8e360",
    "scout": "59b8a4907019f2edf89548c4edcc99d276261d214a4791ceabaedc453e573cd2",
}


@pytest.mark.parametrize("name", KNOWN)
def test_the_two_real_v1_profiles_load_with_their_known_hashes(name):
    data = (samples.PROFILES_V1 / f"{name}.json").read_bytes()
    profile = loading.load_profile(data)
    assert (profile.name, profile.content_sha256) == (name, KNOWN[name])
    assert profile.file_sha256 == sha256(data) == KNOWN_FILES[name]


def test_a_v1_profile_is_shown_and_not_started():
    profile = loading.load_profile((samples.PROFILES_V1 / "smoke.json").read_bytes())
    assert not profile.is_runnable
    with pytest.raises(DocumentError, match=r"context, agentic, swe of this profile are not installed here") as caught:
        loading.require_runnable(profile)
    assert caught.value.code == "suite_not_installed"


def test_the_packaged_profile_is_startable_and_binds_the_packaged_bundle():
    profile = loading.load_profile((ENVIRONMENT_SMOKE / "profile.json").read_bytes())
    assert profile.is_runnable
    assert profile.suites == ("environment",)
    assert loading.require_runnable(profile).suites.environment.task_bundle.name == "environment-smoke"


def test_white_space_changes_the_files_hash_and_not_the_contents():
    document = samples.profile_v1()
    compact, spread = canonical_bytes(document), json.dumps(document, indent=8).encode()
    first, second = loading.load_profile(compact), loading.load_profile(spread)
    assert first.content_sha256 == second.content_sha256
    assert first.file_sha256 != second.file_sha256


@pytest.mark.parametrize(
    ("schema", "code"),
    [
        ("anvil-serving.benchmark-profile/v3", "unknown_version"),
        ("anvil-serving.benchmark-profile/v1.0", "unknown_version"),
        ("anvil-serving.benchmark-profile/V2", "unknown_version"),
        ("benchsite.run-spec/v1", "unknown_schema"),
        ("", "unknown_schema"),
        (2, "bad_profile.wrong_type"),
        (None, "bad_profile.wrong_type"),
        (["anvil-serving.benchmark-profile/v2"], "bad_profile.wrong_type"),
    ],
)
def test_an_unknown_version_is_refused_before_anything_else(schema, code):
    broken = samples.changed(samples.profile_v2(), samples.put("schema", value=schema))
    with pytest.raises(DocumentError) as caught:
        loading.load_profile(canonical_bytes(broken))
    assert [(problem.code, problem.path) for problem in caught.value.problems] == [(code, "schema")]


def test_a_document_without_a_schema_is_told_apart():
    with pytest.raises(DocumentError) as caught:
        loading.load_profile(b"{}")
    assert caught.value.code == "missing_schema"


def test_neither_versions_validator_knows_the_other():
    for module, other in ((v1, "v2"), (v2, "v1")):
        text = Path(module.__file__).read_text()
        assert not re.search(rf"profile_{other}|benchmark-profile/{other}", text)


def test_a_v2_suite_in_a_v1_profile_fails_by_name_and_never_falls_through():
    suite = samples.profile_v2()["suites"]["environment"]
    broken = samples.changed(samples.profile_v1(), samples.put("suites", "environment", value=suite), rehash=True)
    with pytest.raises(DocumentError) as caught:
        loading.load_profile(canonical_bytes(broken))
    assert [(problem.code, problem.path) for problem in caught.value.problems] == [
        ("unknown_suite", "suites.environment")
    ]


@pytest.mark.parametrize("valid", [samples.profile_v1, samples.profile_v2])
def test_content_that_was_changed_after_hashing_is_told(valid):
    broken = samples.changed(valid(), samples.put("description", value="Something else."))
    with pytest.raises(DocumentError) as caught:
        loading.load_profile(canonical_bytes(broken))
    assert [(problem.code, problem.path) for problem in caught.value.problems] == [
        ("profile_digest_mismatch", "content_sha256")
    ]
    assert content_sha256(broken) in caught.value.sentence


def test_v1_takes_a_revision_of_any_length_between_and_repeated_cases_and_v2_neither():
    lenient = samples.both(
        samples.put("adapters", "ruler", "revision", value="a" * 50),
        samples.put("suites", "context", "cases", value=["x", "x"]),
    )
    loading.load_profile(canonical_bytes(samples.changed(samples.profile_v1(), lenient, rehash=True)))
    strict = samples.both(
        samples.put("adapters", "harbor", "revision", value="a" * 50),
        samples.put("suites", "environment", "cases", value=["x", "x"]),
    )
    with pytest.raises(DocumentError) as caught:
        loading.load_profile(canonical_bytes(samples.changed(samples.profile_v2(), strict, rehash=True)))
    assert {problem.code for problem in caught.value.problems} == {"mutable_adapter", "bad_profile.repeated"}


def test_the_limits_of_v2_themselves_are_taken():
    widest = samples.both(
        samples.put("suites", "environment", "max_steps", value=32),
        samples.put("suites", "environment", "max_completion_tokens", value=4096),
        samples.put("suites", "environment", "max_trial_seconds", value=600),
        samples.put("suites", "environment", "timeout_s", value=1800),
        samples.put("suites", "environment", "scoring", "pass_rate_floor", value=1),
    )
    loading.load_profile(canonical_bytes(samples.changed(samples.profile_v2(), widest, rehash=True)))


def test_every_error_is_told_at_once_in_the_order_of_paths():
    broken = samples.changed(
        samples.profile_v2(),
        samples.both(
            samples.put("suites", "environment", "max_steps", value=40),
            samples.put("suites", "environment", "repetitions", value=True),
            samples.put("suites", "swe", value={}),
            samples.put("adapters", "harbor", "revision", value="main"),
        ),
        rehash=True,
    )
    with pytest.raises(DocumentError) as caught:
        loading.load_profile(canonical_bytes(broken))
    assert [problem.path for problem in caught.value.problems] == [
        "adapters.harbor.revision",
        "suites.environment.max_steps",
        "suites.environment.repetitions",
        "suites.swe",
    ]
