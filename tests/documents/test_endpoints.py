"""Endpoint records: where a run's model may live, and where its credential may stand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsite.lib.canonical import canonical_bytes
from benchsite.lib.problems import DocumentError
from runs.documents.endpoint_urls import is_loopback, url_problems
from runs.documents.endpoints import credential_problems, load_endpoint, looks_like_credential, parse_endpoint
from tests.documents import samples


def loaded(**fields):
    return parse_endpoint({**samples.endpoint(), **fields})


def test_the_record_has_every_default_written_out_and_hashes_so():
    short = loaded()
    full = loaded(served_model=None, scripted=False, request_timeout_s=120)
    assert short.document == full.document
    assert short.record_sha256 == full.record_sha256
    assert short.host == "models.example:8000"


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8900/v1", "http://localhost/v1", "http://[::1]:8000/v1", "http://0.0.0.0:1/v1"]
)
def test_a_loopback_address_needs_the_declared_route_and_is_never_rewritten(url):
    with pytest.raises(DocumentError) as caught:
        loaded(base_url=url, route="direct")
    assert caught.value.code == "endpoint.loopback_without_route"
    assert "host-gateway" in caught.value.sentence
    assert loaded(base_url=url, route="host-gateway").record.base_url == url


@pytest.mark.parametrize(
    "host",
    [
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "::ffff:127.0.0.1",
        "127.0.0.1",
        "::1",
        "localhost.",
        "x.localhost",
    ],
)
def test_loopback_is_seen_however_it_is_written(host):
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["models.example", "10.0.0.7", "localhost.example", "fd00::1", "128.0.0.1", "my-localhost"]
)
def test_other_hosts_are_no_loopback(host):
    assert not is_loopback(host)


@pytest.mark.parametrize(
    "url",
    [
        "https://models.example/v1",
        "http://10.0.0.7:8000/v1",
        "http://[fd00::1]:8000/v1",
        "https://models.example",
        "http://gpu-box:8000/api/v1",
    ],
)
def test_plain_urls_are_taken_as_they_stand(url):
    assert loaded(base_url=url).record.base_url == url


def test_user_info_and_query_are_refused_and_no_part_of_the_url_is_shown():
    with pytest.raises(DocumentError) as caught:
        loaded(base_url="http://u:SENTINEL@h/v1?key=SENTINEL")
    assert {problem.code for problem in caught.value.problems} == {"endpoint.user_info", "endpoint.query"}
    assert "SENTINEL" not in f"{caught.value} {caught.value.problems} {caught.value.detail}"


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"agents": [{"kwargs": {"api_key": "sk-SENTINEL"}}]}, "agents[0].kwargs.api_key"),
        ({"env": {"COOKIE": "SENTINEL"}}, "env.COOKIE"),
        ({"env": {"AUTHORIZATION": "Bearer SENTINEL"}}, "env.AUTHORIZATION"),
        ({"token": "SENTINEL"}, "token"),
        ({"note": "use Bearer SENTINELSENTINEL"}, "note"),
        ({"url": "https://u:SENTINEL@h/"}, "url"),
        ({"x": ["sk-proj-SENTINEL_1"]}, "x[0]"),
        ({"x": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.x"}, "x"),
        ({"x": "-----BEGIN RSA PRIVATE KEY-----"}, "x"),
        ({"x": "ghp_" + "a" * 36}, "x"),
    ],
)
def test_a_credential_in_plain_text_is_found_and_not_shown(document, path):
    problems = list(credential_problems(document))
    assert [problem.path for problem in problems] == [path]
    assert "SENTINEL" not in problems[0].sentence


@pytest.mark.parametrize(
    "text", ["task-ledger-totals", "disk-space-is-low", "https://models.example/v1", "a" * 64, "basic arithmetic"]
)
def test_ordinary_text_is_not_taken_for_a_credential(text):
    assert not looks_like_credential(text)


def test_a_credential_in_any_field_of_a_record_is_refused():
    for field in ("name", "model", "served_model"):
        with pytest.raises(DocumentError) as caught:
            loaded(**{field: "sk-SENTINEL-12345678"})
        assert "credential_in_plaintext" in {problem.code for problem in caught.value.problems}


def test_a_key_pasted_as_the_name_of_its_variable_is_refused_and_not_shown():
    with pytest.raises(DocumentError) as caught:
        loaded(credential={"kind": "env", "name": "sk-SENTINEL-12345678"})
    assert "SENTINEL" not in str(caught.value.problems)


def test_the_three_kinds_of_credential_are_taken():
    for credential in (
        {"kind": "env", "name": "BENCHSITE_ENDPOINT_LOCAL_KEY"},
        {"kind": "file", "name": "/run/secrets/model-key"},
        {"kind": "file", "name": "/srv/checkout/.benchsite/scripted-key"},
        {"kind": "none"},
    ):
        name = loaded(credential=credential).document["credential"]["name"]
        assert name == credential.get("name")


def test_every_problem_of_a_record_is_told_at_once():
    broken = {**samples.endpoint(), "base_url": "ftp://x", "model": "", "controls": ["magic"], "credential": {}}
    with pytest.raises(DocumentError) as caught:
        load_endpoint(canonical_bytes(broken))
    assert {problem.path for problem in caught.value.problems} == {
        "base_url",
        "model",
        "controls[0]",
        "credential.kind",
    }


@given(st.text(max_size=60), st.sampled_from(["direct", "host-gateway", "other", ""]))
def test_any_text_is_a_url_or_refused_without_an_accident(text, route):
    for problem in url_problems(text, route):
        assert problem.code.startswith("endpoint.")


@given(st.from_regex(r"https?://[a-z0-9.:@\[\]-]{1,20}(/[a-z?#%.]{0,6}){0,3}", fullmatch=True))
def test_no_url_with_user_info_query_or_fragment_is_ever_taken(url):
    if not list(url_problems(url, "direct")):
        assert not set("@?#%\\ ") & set(url)


@pytest.mark.parametrize("name", ["/run/../etc/shadow", "/./key", "/run/..", "relative", "/run//key", "/run/.../key"])
def test_a_credential_file_never_steps_up_or_stays(name):
    with pytest.raises(DocumentError):
        loaded(credential={"kind": "file", "name": name})


@pytest.mark.parametrize(("host", "code"), [("169.254.169.254.", "bad_host"), ("127.0.0.1.", "loopback_without_route")])
def test_a_final_dot_makes_no_name_of_an_address(host: str, code: str) -> None:
    codes = {problem.code for problem in url_problems(f"http://{host}/v1", "direct")}
    assert {"endpoint.odd_address", f"endpoint.{code}"} <= codes


def test_a_record_of_v1_stays_what_it_was_with_its_hash_and_leads_where_it_led() -> None:
    old = parse_endpoint({**samples.endpoint(), "served_model": "other", "base_url": "http://10.0.0.7:8000/v1"})
    assert old.document["schema"] == "benchsite.endpoint/v1" and "served_models" not in old.document
    assert old.record_sha256 == "9c5d6cb618d12b9a7f2fd3a4dbd5230e973ea5f9efabf3b8fd6b4a30090ed291"
    assert (old.record.served_models, old.record.private_addresses) == (["other"], "allowed")


def test_a_record_of_v2_refuses_private_addresses_unless_it_says_so() -> None:
    plain = {name: value for name, value in samples.endpoint_v2().items() if name != "private_addresses"}
    assert parse_endpoint(plain).record.private_addresses == "refused"
    private = {**plain, "base_url": "http://10.0.0.7:8000/v1", "private_addresses": "allowed"}
    assert parse_endpoint(private).record.private_addresses == "allowed"
