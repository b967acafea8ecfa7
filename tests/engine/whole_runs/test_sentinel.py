"""The endpoint's credential is in no place that outlives a request, nor in any that an agent can read."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from tests.engine.conftest import CancelledRun, Gate

pytestmark = pytest.mark.harbor_compatibility


def forms(secret: str) -> set[bytes]:
    """A secret as it stands, and as JSON, a URL or base64 (at each of its three alignments) would carry it."""
    raw = secret.encode()
    found = {raw, json.dumps(secret)[1:-1].encode(), quote(secret).encode(), quote_plus(secret).encode()}
    found |= {raw.hex().encode(), raw[::-1]}
    for shift in range(3):
        coded = base64.b64encode(b"x" * shift + raw)
        inner = coded[4 if shift else 0 : -4]  # what neighbours would change is left out
        found |= {inner, inner.translate(bytes.maketrans(b"+/", b"-_"))}
    return found


def holders(places: dict[str, bytes], secret: str) -> list[str]:
    return [name for name, content in places.items() if any(form in content for form in forms(secret))]


def named(processes: dict[int, bytes]) -> dict[str, bytes]:
    return {f"process {pid} {seen[:80]!r}": seen for pid, seen in processes.items()}


def token_of(run: CancelledRun) -> str:
    """The bearer of the waiting agent, as that agent's own process shows it."""
    (token,) = set(_keys(run.live.agent_files))
    return token


def _keys(files: bytes) -> Iterator[str]:
    for part in files.split(b"\0"):
        if part.startswith(b"OPENAI_API_KEY=") and len(part) < 300:
            yield part.partition(b"=")[2].decode()


def test_the_search_finds_a_secret_in_every_form() -> None:
    secret = "sk-/+=&abcdefghijklmnop"
    for carried in (
        f"Bearer {secret}",
        json.dumps({"k": secret}),
        quote(secret),
        base64.b64encode(f"xx{secret}yy".encode()).decode(),
        base64.b64encode(f"x{secret}".encode()).decode(),
        base64.urlsafe_b64encode(secret.encode()).decode(),
    ):
        assert holders({"here": carried.encode()}, secret) == ["here"], carried
    assert holders({"here": b"sk-other"}, secret) == []


def test_the_credential_was_really_used(gate: Gate, cancelled: CancelledRun) -> None:
    """Its absence elsewhere says something only because the endpoint refuses all who do not show it."""
    assert cancelled.run["trials"][0]["bucket"] == "passed"
    assert gate.key not in cancelled.told


def test_no_store_of_the_site_holds_it_while_the_run_lives_or_after(gate: Gate, cancelled: CancelledRun) -> None:
    """Database, queue, logs, the run's folder, every byte of the data folder."""
    run = cancelled.run["run"]
    for stores in (cancelled.live.stores, cancelled.after.stores):
        assert run.encode() in stores["all tables"] and run.encode() in stores["all keys"]
        assert any(name.endswith("harbor.log") for name in stores) and "worker.log" in stores
        assert holders(stores, gate.key) == []


def test_no_process_shows_it_in_arguments_or_environment(gate: Gate, cancelled: CancelledRun) -> None:
    seen = named(cancelled.live.processes)
    assert any(b"runs.harness.launch" in one for one in seen.values())
    assert any(b"/runs/attendant" in one for one in seen.values())
    assert any(b"mini-swe-agent" in one for one in seen.values())
    assert holders(seen, gate.key) == []


def test_the_engine_shows_it_in_no_inspection_and_no_log(gate: Gate, cancelled: CancelledRun) -> None:
    live = cancelled.live
    places = {role: json.dumps(seen).encode() for role, seen in live.containers.items()}
    places |= {name: json.dumps(seen).encode() for name, seen in live.networks.items()}
    places["logs"] = live.engine_logs
    assert len(places) == 6 and live.engine_logs
    assert holders(places, gate.key) == []


def test_the_agents_container_holds_it_in_no_file_and_no_process(gate: Gate, cancelled: CancelledRun) -> None:
    files = cancelled.live.agent_files
    assert b"mini-swe-agent" in files and b"config-merge" in files
    assert holders({"agent": files}, gate.key) == []


def test_the_bearer_of_a_trial_is_in_no_environment_of_the_engine_and_in_no_evidence(
    cancelled: CancelledRun,
) -> None:
    token = token_of(cancelled)
    assert len(token) >= 32
    inspected = {role: json.dumps(seen).encode() for role, seen in cancelled.live.containers.items()}
    assert holders(inspected, token) == []
    outside = {name: seen for name, seen in named(cancelled.live.processes).items() if b"OPENAI_API_KEY" not in seen}
    assert holders(outside, token) == []
    assert holders(cancelled.after.stores, token) == []


def test_what_an_agent_told_of_its_own_bearer_is_kept_without_it(cancelled: CancelledRun) -> None:
    """The first agent printed its environment: the endpoint heard the bearer, the evidence does not hold it."""
    after, first = cancelled.after, cancelled.told
    told = {part.split("\n")[0] for part in first.split("OPENAI_API_KEY=")[1:]}
    (token,) = {part for part in told if len(part) >= 32}
    assert token != token_of(cancelled)
    assert holders(after.stores, token) == []
    kept = Path(after.folder / "trials" / "1" / "kept" / "agent" / "mini-swe-agent.trajectory.json").read_text()
    assert "OPENAI_API_KEY=" in kept
