"""Every invalid document of the corpus gives exactly its own code and path."""

from collections.abc import Callable
from typing import Any

import pytest

from benchsite.lib.canonical import canonical_bytes
from benchsite.lib.problems import DocumentError, Problem
from runs.documents import endpoints
from runs.documents.bundle import manifest
from runs.documents.profile import loading
from tests.documents import invalid, samples, toml_cases
from tests.documents.invalid import Case

KINDS: list[tuple[str, Callable[[], dict[str, Any]], Callable[[bytes], object], list[Case]]] = [
    ("profile-v2", samples.profile_v2, loading.load_profile, invalid.PROFILE_V2),
    ("profile-v1", samples.profile_v1, loading.load_profile, invalid.PROFILE_V1),
    ("endpoint", samples.endpoint, endpoints.load_endpoint, invalid.ENDPOINT),
    ("endpoint-v2", samples.endpoint_v2, endpoints.load_endpoint, invalid.ENDPOINT_V2),
    ("manifest", samples.manifest, manifest.load_manifest, invalid.MANIFEST),
]
TABLE = [
    pytest.param(valid, load, case, id=f"{kind}: {case.name}") for kind, valid, load, cases in KINDS for case in cases
]


@pytest.mark.parametrize(("valid", "load", "case"), TABLE)
def test_an_invalid_document_is_refused_with_its_own_code_and_path(valid, load, case):
    broken = samples.changed(valid(), case.change, rehash=True)
    with pytest.raises(DocumentError) as caught:
        load(canonical_bytes(broken))
    assert [(problem.code, problem.path) for problem in caught.value.problems] == [(case.code, case.path)]
    assert not set("^$\\") & set(caught.value.sentence), "a pattern is no sentence"


@pytest.mark.parametrize(("valid", "load"), [pytest.param(kind[1], kind[2], id=kind[0]) for kind in KINDS])
def test_the_documents_that_the_corpus_breaks_are_valid(valid, load):
    load(canonical_bytes(valid()))


def test_the_corpus_has_at_least_150_documents():
    assert len(TABLE) + len(toml_cases.CASES) >= 150


def test_no_sentence_quotes_a_text_of_the_document():
    secret = "SENTINEL-3f9a"
    for place in (("name",), ("description",), ("suites", "environment", "agent", "name")):
        broken = samples.changed(samples.profile_v2(), samples.put(*place, value=[secret]))
        assert secret not in str(_problems(loading.load_profile, broken))
    for field in ("base_url", "model", "route", "credential", "name"):
        broken = samples.changed(samples.endpoint(), samples.put(field, value=f"http://u:{secret}@h/ {secret}"))
        assert secret not in str(_problems(endpoints.load_endpoint, broken))


def test_the_sentence_says_what_is_above_what():
    broken = samples.changed(
        samples.profile_v2(), samples.put("suites", "environment", "max_steps", value=40), rehash=True
    )
    assert [str(problem) for problem in _problems(loading.load_profile, broken)] == [
        "suites.environment.max_steps: 40 is above 32"
    ]


def _problems(load: Callable[[bytes], object], document: dict[str, Any]) -> tuple[Problem, ...]:
    with pytest.raises(DocumentError) as caught:
        load(canonical_bytes(document))
    return caught.value.problems
