"""Forms of real endpoints, each in a trial of a whole run, whose result is charged to whom it belongs."""

import json
from typing import Any

import pytest

from runs.scripted.scripts import Mode
from tests.engine.conftest import FORMS, NEWER, EndedRun

pytestmark = pytest.mark.harbor_compatibility

OK, TELLING = ("ok", None), {"context_window_exceeded", "answer_cut", "model_refused", "gateway_refusals"}
# The code of the trial or, of one that was evaluated, its bucket; kinds and codes of its ledger lines; the badges.
EXPECTED: dict[Mode, tuple[str, list[tuple[str, str | None]], set[str]]] = {
    Mode.SIGNED: ("passed", [OK] * 4, set()),
    Mode.IN_PARTS: ("passed", [OK] * 4, set()),
    Mode.ODD_NAME: ("passed", [OK] * 6, set()),
    Mode.POSITIVE: ("passed", [OK] * 4, set()),
    Mode.DATED_NAME: ("passed", [OK] * 4, set()),
    Mode.NO_USAGE: ("passed", [OK] * 4, set()),
    Mode.CONTEXT_OVERFLOW: (
        "passed", [OK, OK, ("upstream_error", "context_window")], {"context_window_exceeded"},
    ),
    Mode.REASONING_CUT: ("failed", [OK] * 3, {"answer_cut"}),
    Mode.REFUSING: ("failed", [OK] * 3, {"model_refused"}),
    Mode.RATE_LIMITED: ("serving_runtime.rate_limited", [("upstream_error", "status")], set()),
    Mode.RATE_LIMITED_INSIDE: ("serving_runtime.rate_limited", [("upstream_error", "error_in_success")], set()),
    Mode.BANNER: ("serving_runtime.malformed_answer", [("malformed", "text_before_json")], set()),
}  # fmt: skip
PLACES = [(alias, n) for alias, modes in FORMS.items() for n in range(1, len(modes) + 1)]


def asked(run: EndedRun, ordinal: int) -> list[dict[str, Any]]:
    """The lines of a trial's requests."""
    lines = map(json.loads, (run.folder / "ledger.jsonl").read_text().splitlines())
    return [line for line in lines if line.get("trial") == ordinal]


@pytest.mark.parametrize(("alias", "ordinal"), PLACES, ids=[FORMS[alias][n - 1].value for alias, n in PLACES])
def test_each_form_is_judged_as_what_it_is(forms: dict[str, EndedRun], alias: str, ordinal: int) -> None:
    code, kinds, badges = EXPECTED[FORMS[alias][ordinal - 1]]
    trial = forms[alias].trial(ordinal)
    assert [(line["kind"], line["code"]) for line in asked(forms[alias], ordinal)] == kinds
    assert (trial["code"] or trial["bucket"]) == code
    assert TELLING & set(trial["badges"]) == badges


def test_usage_that_the_endpoint_does_not_report_is_not_made_up(forms: dict[str, EndedRun]) -> None:
    reported = [[line["completion_tokens"] for line in asked(forms[NEWER], n)] for n in (2, 3)]
    assert all(reported[0]) and reported[1] == [None] * 4


def test_the_seconds_of_the_rate_limit_stand_in_the_ledger(forms: dict[str, EndedRun]) -> None:
    assert [line["retry_after_s"] for line in asked(forms["gate-forms-failing"], 1)] == [7]
