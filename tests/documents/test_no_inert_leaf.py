"""Whatever a profile, a manifest or an endpoint's record says changes what is run, or is refused; nothing is ignored.

A change counts only when it reaches the spec itself: that the hash of the document differs is no effect.
"""

import copy
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from benchsite.lib.canonical import canonical_bytes, content_sha256, walk
from benchsite.lib.problems import DocumentError, path_of
from runs.documents.bundle.manifest import LoadedBundle, load_manifest, verify_bundle
from runs.documents.bundle.packaged import ENVIRONMENT_SMOKE, read_bundle
from runs.documents.endpoints import SCHEMA, SCHEMA_V1, parse_endpoint
from runs.documents.profile.loading import load_profile
from runs.documents.run_spec import Spec
from runs.documents.spec_inputs import HARBOR_COMMITS, EndpointVersion
from runs.documents.specs import resolve_spec, spec_difference
from runs.images.recipes import recipe_identities
from tests.documents import samples
from tests.documents.test_specs import inputs

type Location = tuple[str | int, ...]

HASHES = {"profile.content_sha256", "profile.file_sha256", "bundle.manifest_sha256"}
# For people to read; whoever changes one changes nothing that is run.
LABELS = {"description"}
# Bounds that do nothing while they are wide enough; a narrower one must have its effect.
BOUNDS = {
    "suites.environment.timeout_s", "suites.environment.max_trial_seconds",
    *(f"ceilings.phases.{phase}" for phase in ("environment_start_s", "agent_setup_s", "agent_s", "verifier_s")),
    "suites.environment.requirements.min_free_disk_bytes",
}  # fmt: skip


# Whose order says nothing: a profile's cases say in which order tasks run.
SETS = {"controls", "tasks", "served_models"}


def _is_reordered(other: Any, value: list[Any]) -> bool:
    return isinstance(other, list) and sorted(map(str, other)) == sorted(map(str, value))


def other_values(value: Any) -> list[Any]:
    """Values to try in the place of one, of its own type and of others."""
    match value:
        case bool():
            return [not value, None, int(value)]
        case int() | float():
            return [value + 1, value - 1, 0, 1, 10, str(value), True]
        case str():
            swapped = ("0" if value[-1:] != "0" else "1").join((value[:-1], ""))
            named = ["reward.txt", "reward.json", "dataset", "image", "git", "agent", "host-gateway", "direct", "x"]
            return [swapped, value + "x", "", None, *(name for name in named if name != value)]
        case None:
            return ["other", 1, False]
        case list():
            return [[], value[:-1], [*value, "other"], [*value, *value], [*reversed(value)], None]
    return [{}, None]


def places(document: Any) -> list[Location]:
    """Every leaf and every list or object, but the document itself."""
    return [location for location, _ in walk(document) if location]


def changed(document: Any, location: Location, value: Any) -> Any:
    result = copy.deepcopy(document)
    place = result
    for part in location[:-1]:
        place = place[part]
    place[location[-1]] = value
    return result


def at(document: Any, location: Location) -> Any:
    for part in location:
        document = document[part]
    return document


@cache
def original(schema: str = SCHEMA_V1) -> Spec:
    record = parse_endpoint({SCHEMA_V1: ENDPOINT, SCHEMA: ENDPOINT_V2}[schema]).record
    return resolve_spec(**inputs(endpoint=EndpointVersion(record, 1)))


def has_effect(**changes: Any) -> bool:
    """Whether the spec of these inputs differs from the original in more than the hashes of the documents."""
    given = {"endpoint": EndpointVersion(parse_endpoint(ENDPOINT).record, 1), **changes}
    try:
        spec = resolve_spec(**inputs(**given))
    except DocumentError:
        return True
    return bool({each.path for each in spec_difference(original().document, spec.document)} - HASHES)


def of_profile(document: dict[str, Any]) -> bool:
    document["content_sha256"] = content_sha256(document)
    try:
        return has_effect(profile=load_profile(canonical_bytes(document)))
    except DocumentError:
        return True


def of_manifest(document: dict[str, Any]) -> bool:
    try:
        bundle = load_manifest(canonical_bytes(document))
    except DocumentError:
        return True
    if verify_bundle(ENVIRONMENT_SMOKE, bundle, recipes=recipe_identities()):
        return True
    binding = samples.put("suites", "environment", "task_bundle", "manifest_sha256", value=bundle.manifest_sha256)
    profile = load_profile(canonical_bytes(samples.changed(samples.profile_v2(), binding, rehash=True)))
    return has_effect(bundle=bundle, profile=profile)


def of_endpoint(document: dict[str, Any]) -> bool:
    """Compared with the spec of the record of the same version."""
    try:
        spec = resolve_spec(**inputs(endpoint=EndpointVersion(parse_endpoint(document).record, 1)))
    except DocumentError:
        return True
    return spec.document != original(document["schema"]).document


FIXED = samples.put("suites", "environment", "sampling", value={"temperature": 0.0, "top_p": 1.0, "seed": 7})
PROFILE = samples.profile_v2()
MANIFEST = samples.manifest()
ENDPOINT = {
    **samples.endpoint(), "served_model": "other-name", "request_timeout_s": 60, "scripted": False,
    "controls": ["max_tokens", "temperature", "top_p", "seed"],
}  # fmt: skip
ENDPOINT_V2 = {
    **samples.endpoint_v2(), "base_url": "https://models.example/v1", "ca_file": "/etc/benchsite/ca.pem",
    "request_timeout_s": 60, "scripted": False,
    "controls": ["max_tokens", "temperature", "top_p", "seed"],
    "prices": {"currency": "USD", "date": "2026-11-30", "input": "2.50", "cached_input": "0.25", "output": "10.00"},
    "limits": {"requests_per_minute": 60, "tokens_per_minute": 100_000, "concurrent_requests": 4},
    "budgets": {
        **{scope: {"tokens": 50_000, "money": "1.50"} for scope in ("trial", "run")},
        **{scope: {"tokens": 5_000_000, "money": "150.00"} for scope in ("day", "total")},
    },
}  # fmt: skip
DOCUMENTS = {
    "profile": (PROFILE, of_profile),
    "manifest": (MANIFEST, of_manifest),
    "endpoint": (ENDPOINT, of_endpoint),
    "endpoint-v2": (ENDPOINT_V2, of_endpoint),
}


def cases() -> Iterator[Any]:
    for name, (document, _) in DOCUMENTS.items():
        for location in places(document):
            # Of a manifest's many files one is like the other.
            if "files" in location and location[-1] != "files" and location[location.index("files") + 1] != 0:
                continue
            yield pytest.param(name, location, id=f"{name}: {path_of(location)}")


@pytest.mark.parametrize(("name", "location"), [*cases()])
def test_a_changed_place_changes_the_spec_or_is_refused(name: str, location: Location) -> None:
    document, effect = DOCUMENTS[name]
    path = path_of(location)
    if path in LABELS or path == "content_sha256":  # the hash is made anew for every change, and is tested by itself
        return
    value = at(document, location)
    tried = [other for other in other_values(value) if other != value or isinstance(other, bool)]
    if path in SETS:
        tried = [other for other in tried if not _is_reordered(other, value)]
    inert = [other for other in tried if not effect(changed(document, location, other))]
    assert len(inert) < len(tried) if path in BOUNDS else not inert


def test_the_original_documents_have_no_difference_so_that_a_difference_is_the_changes() -> None:
    assert not of_profile(copy.deepcopy(PROFILE)) and not of_endpoint(copy.deepcopy(ENDPOINT))
    assert not of_endpoint(copy.deepcopy(ENDPOINT_V2))
    assert not of_manifest(copy.deepcopy(MANIFEST))


@pytest.mark.parametrize("place", ["environment_start_s", "agent_setup_s", "agent_s", "verifier_s"])
def test_a_narrower_phase_is_the_specs(place: str) -> None:
    bundle = load_manifest(canonical_bytes(changed(MANIFEST, ("ceilings", "phases", place), 5)))
    assert _bound(bundle).content.limits.model_dump()[place] == 5


def _bound(bundle: LoadedBundle) -> Spec:
    binding = samples.put("suites", "environment", "task_bundle", "manifest_sha256", value=bundle.manifest_sha256)
    profile = load_profile(canonical_bytes(samples.changed(samples.profile_v2(), binding, rehash=True)))
    return resolve_spec(**inputs(bundle=bundle, profile=profile))


def test_the_sampling_that_a_profile_fixes_is_the_specs_and_every_value_of_it_has_an_effect() -> None:
    document = samples.changed(PROFILE, FIXED, rehash=True)
    endpoint = EndpointVersion(parse_endpoint(ENDPOINT).record, 1)
    spec = resolve_spec(**inputs(profile=load_profile(canonical_bytes(document)), endpoint=endpoint))
    assert spec.content.controls.sampling.fixed == {"temperature": 0.0, "top_p": 1.0, "seed": 7}
    for control in ("temperature", "top_p", "seed"):
        left = samples.changed(document, samples.drop("suites", "environment", "sampling", control), rehash=True)
        other = resolve_spec(**inputs(profile=load_profile(canonical_bytes(left)), endpoint=endpoint))
        assert control not in other.content.controls.sampling.fixed


@pytest.mark.parametrize(
    "sampling",
    [
        {"temperatur": 0}, {"temperature": "0"}, {"temperature": None}, {"temperature": True}, {"temperature": 2.01},
        {"temperature": -0.1}, {"temperature": [0]}, {"top_p": 1.01}, {"top_p": "agnet"}, {"seed": 1.0}, {"seed": -1},
        {"seed": None}, {"seed": False}, {"max_tokens": 1}, None, [], "agent",
    ],
)  # fmt: skip
def test_a_mistyped_sampling_is_refused_and_never_read_as_left_to_the_agent(sampling: Any) -> None:
    document = samples.changed(PROFILE, samples.put("suites", "environment", "sampling", value=sampling), rehash=True)
    with pytest.raises(DocumentError) as caught:
        load_profile(canonical_bytes(document))
    (problem,) = caught.value.problems
    assert problem.path.startswith("suites.environment.sampling")


@pytest.mark.parametrize("control", ["temperature", "top_p", "seed"])
def test_a_control_that_is_fixed_must_be_one_that_the_endpoint_obeys(control: str) -> None:
    profile = load_profile(canonical_bytes(samples.changed(PROFILE, FIXED, rehash=True)))
    controls = [name for name in ENDPOINT["controls"] if name != control]
    record = parse_endpoint({**ENDPOINT, "controls": controls}).record
    with pytest.raises(DocumentError) as caught:
        resolve_spec(**inputs(profile=profile, endpoint=EndpointVersion(record, 1)))
    (problem,) = caught.value.problems
    assert problem.code == "spec.control_not_declared" and control in problem.sentence


def test_the_commit_of_the_release_that_the_harness_locks_is_known() -> None:
    lock = (ENVIRONMENT_SMOKE.parents[1] / "harness" / "requirements.txt").read_text()
    (version,) = [line.split("==")[1].split()[0] for line in lock.splitlines() if line.startswith("harbor==")]
    assert PROFILE["adapters"]["harbor"]["revision"] == HARBOR_COMMITS[version]
    assert read_bundle(ENVIRONMENT_SMOKE).manifest.verifier.reward_file == "reward.json"
