"""Pages of experiments: every number beside its trust and what it was made of, and nothing of a job interpreted."""

import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from evidence.models import Case, Experiment, ExperimentFile, ExperimentTrial, Suite
from tests.experiments import rows
from tests.pages import experiment_rows
from tests.pages.conftest import Browser
from tests.pages.factories import Site
from tests.pages.runs.test_run_page import plain
from tests.pages.test_unseen import TAGGED, unseen_in

type Experiments = dict[str, Experiment]
MARKUP = "<script>alert(1)</script>{{ 7|add:7 }}\"'><img src=x onerror=alert(2)>"


@pytest.fixture
def made(site: Site) -> Experiments:
    return experiment_rows.made(site.operator)


def read(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200, path
    return response.content.decode()


def table_rows(html: str) -> list[str]:
    """The rows of all tables of a page as plain text."""
    return [plain(row) for row in re.findall(r"<tr\b.*?</tr>", html, re.DOTALL)]


def row_with(html: str, words: str) -> str:
    (found,) = [row for row in table_rows(html) if words in row]
    return found


def trial_of(experiment: Experiment, outcome: str) -> ExperimentTrial:
    return experiment.trials.filter(reported_outcome=outcome).order_by("pk")[0]


def addresses(made: Experiments) -> list[str]:
    """One of every page."""
    alpha, trial = made["alpha"], trial_of(made["alpha"], "errored")
    return [
        "/experiments/",
        "/experiments/compare/",
        f"/experiments/compare/?e={alpha.key}&e={made['beta'].key}&e={made['once'].key}",
        f"/experiments/{alpha.key}/",
        f"/experiments/{alpha.key}/trials/{trial.pk}/",
        "/suites/",
        f"/suites/{alpha.suite_id}/",
        f"/cases/{trial.case_id}/",
    ]


# The list


def test_the_list_says_trust_and_graded_beside_every_rate(made: Experiments, browse: Browser) -> None:
    lines = table_rows(read(browse("viewer"), "/experiments/"))[1:]
    assert len(lines) == 4
    assert all("reported, imported" in line or "reported, live" in line for line in lines)
    assert all(re.search(r"\d+ of \d+ graded", line) for line in lines)
    (live,) = [line for line in lines if "live run of tonight" in line]
    assert "no pass rate" in live and "0 of 24 graded" in live and "%" not in live


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("source=live", {"live run of tonight"}),
        ("source=imported&state=failed", {"nightly alpha", "nightly beta", "nightly once"}),
        ("state=open", {"live run of tonight"}),
        ("source=environment", set()),
        ("suite=nonsense", set()),
        ("candidate=<script>", set()),
        ("source=%00", set()),
    ],
)
def test_filters_combine_and_what_is_none_of_them_finds_nothing(
    made: Experiments, browse: Browser, query: str, names: set[str]
) -> None:
    html = read(browse("viewer"), f"/experiments/?{query}")
    assert set(re.findall(r'class="name" href="/experiments/\w+/">([^<]+)<', html)) == names
    assert names or "No experiment matches these filters." in html


def test_the_list_is_filtered_by_suite_and_by_candidate(made: Experiments, browse: Browser) -> None:
    other = rows.experiment("elsewhere")
    client = browse("viewer")
    html = read(client, f"/experiments/?suite={other.suite_id}")
    assert "elsewhere" in html and "nightly" not in html
    (digest,) = re.findall(r'<option value="(\w+)"[^>]*>mini-swe-agent · openai/coder-beta<', html)
    html = read(client, f"/experiments/?candidate={digest}")
    assert re.findall(r'class="name" href="/experiments/\w+/">([^<]+)<', html) == ["nightly beta"]


def test_walking_the_list_shows_every_experiment_once(site: Site, browse: Browser) -> None:
    names = {rows.experiment(f"job-{n}").name for n in range(60)}
    client, seen, query = browse("viewer"), [], ""
    for _ in range(3):
        html = read(client, f"/experiments/{query}")
        seen += re.findall(r'class="name" href="/experiments/\w+/">([^<]+)<', html)
        older = re.search(r'rel="next" href="(\?[^"]+)"', html)
        query = older[1] if older else ""
    assert (query, len(seen), set(seen)) == ("", 60, names)


def test_an_empty_site_says_how_an_experiment_comes_to_be(site: Site, browse: Browser) -> None:
    client = browse("viewer")
    assert "manage.py experiment import" in read(client, "/experiments/")
    assert "No suite yet." in read(client, "/suites/")


# One experiment


def test_the_sum_of_an_experiment_adds_up_and_names_what_was_never_graded(made: Experiments, browse: Browser) -> None:
    html = read(browse("viewer"), f"/experiments/{made['beta'].key}/")
    words = re.findall(r"<dt>(?:<svg.*?</svg>)?([^<]+)</dt><dd class=\"n\">([\d,]+)</dd>", html)
    cells = {word: int(n) for word, n in words}
    assert cells == {
        "Requested": 25, "Graded": 21, "Passed": 16, "Failed": 5, "Errored": 1, "Not reported": 2, "Unknown": 1,
    }  # fmt: skip
    assert cells["Requested"] == sum(cells[word] for word in ("Graded", "Errored", "Not reported", "Unknown"))
    text = plain(html)
    assert "21 trials of 25 have a grade that counts; four are in no rate, and never counted as failed." in text
    assert "How the interval was made: mean over cases with Student" in text


def test_an_experiment_shows_attempts_errors_cost_and_what_came_in(made: Experiments, browse: Browser) -> None:
    alpha = made["alpha"]
    html = read(browse("operator"), f"/experiments/{alpha.key}/")
    assert "2 of 3 passed" in row_with(html, "dedupe-log-lines")
    assert "RuntimeError (2 times)" in row_with(html, "rename-with-collisions")
    assert 'aria-label="Attempt 3: reported failed"' in html
    assert "2" in row_with(html, "Not graded") and "The grade counts beside it" in row_with(html, "AgentTimeoutError")
    assert "24 of 24" in row_with(html, "Input tokens")
    assert [row for row in table_rows(html) if "any passes 71.4 % all pass 52.4 % cases 7 of 8" in row]
    assert "The job was not ended: Harbor was stopped." in html
    assert "Harbor reported this. Not proved: that a worker of this site carried it out" in html
    assert "missing: not in the folder" in row_with(html, "config.json")


@pytest.mark.parametrize(
    ("show", "cases"),
    [
        ("failed", 4), ("flaky", 2), ("never", 2), ("ungraded", 0), ("all", 8), ("nonsense", 8),
    ],
)  # fmt: skip
def test_cases_are_narrowed_by_what_became_of_them(made: Experiments, browse: Browser, show: str, cases: int) -> None:
    html = read(browse("viewer"), f"/experiments/{made['alpha'].key}/?show={show}")
    assert len(re.findall(r'class="name" href="/cases/', html)) == cases
    assert bool(cases) or "Every case has a grade." in html


def test_cases_come_in_windows(site: Site, browse: Browser) -> None:
    one = rows.experiment()
    for n in range(130):
        rows.trial(one, f"case {n:03}")
    client = browse("viewer")
    for query, first, count in (("", "case 000", 100), ("?from=101", "case 100", 30), ("?from=9999", "case 100", 30)):
        names = re.findall(r'class="name" href="/cases/\d+/">([^<]+)<', read(client, f"/experiments/{one.key}/{query}"))
        assert (names[0], len(names)) == (first, count)


def test_one_attempt_a_case_has_a_wilson_interval_and_no_pass_at_k(made: Experiments, browse: Browser) -> None:
    text = plain(read(browse("viewer"), f"/experiments/{made['once'].key}/"))
    assert "57.1 % passed" in text and "25 to 84.2 % 95 % interval" in text
    assert "Wilson interval over the graded cases" in text and "pass@k" not in text


def test_nothing_reported_is_never_zero(site: Site, browse: Browser) -> None:
    one = rows.experiment()
    trial = rows.trial(one)
    client = browse("viewer")
    for path in (f"/experiments/{one.key}/", f"/experiments/{one.key}/trials/{trial.pk}/"):
        text = plain(read(client, path))
        assert "not reported" in text and "$0" not in text and "0 tokens" not in text


# One trial


def test_a_trial_says_rewards_usage_times_and_whose_word_it_is(made: Experiments, browse: Browser) -> None:
    trial = trial_of(made["alpha"], "errored")
    html = read(browse("viewer"), f"/experiments/{trial.experiment.key}/trials/{trial.pk}/")
    text = plain(html)
    assert "Errored RuntimeError It has no grade that counts, and stands in no rate." in text
    assert "it does not count, since the trial has no grade" in row_with(html, "harbor.reward")
    assert "0.75 diagnostic, decides nothing" in row_with(html, "harbor.style")
    assert "Input tokens 25,200" in text and "Cached of these not reported" in text
    assert "reported, imported" in text and "Harbor reported this. Not proved:" in text


def test_times_without_a_zone_stand_as_they_were_written(site: Site, browse: Browser) -> None:
    trial = rows.trial(rows.experiment(), details={"times": {"started_at": "2026-11-28T14:05:00"}})
    text = plain(read(browse("viewer"), f"/experiments/{trial.experiment.key}/trials/{trial.pk}/"))
    assert "2026-11-28T14:05:00 as it was written, without a zone" in text and "UTC" not in text


def test_a_trial_of_another_experiment_is_not_found(made: Experiments, browse: Browser) -> None:
    trial = trial_of(made["alpha"], "errored")
    client = browse("viewer")
    for path in (f"/experiments/{made['beta'].key}/trials/{trial.pk}/", "/experiments/none/", "/cases/999999/"):
        assert client.get(path).status_code == 404


def test_files_are_for_operators_alone(site: Site, browse: Browser) -> None:
    one = rows.experiment()
    trial = rows.trial(one)
    for of, path in ((None, "job-secret.json"), (trial, "agent/trial-secret.json")):
        ExperimentFile.objects.create(experiment=one, trial=of, path=path, state="missing")
    for address, path in (
        (f"/experiments/{one.key}/", "job-secret"),
        (f"/experiments/{one.key}/trials/{trial.pk}/", "trial-secret"),
    ):
        assert path in read(browse("operator"), address)
        hidden = read(browse("viewer"), address)
        assert path not in hidden and "Files: operators only." in hidden


# Suites and cases


def test_a_suite_says_what_each_revision_changed(made: Experiments, browse: Browser) -> None:
    html = read(browse("viewer"), f"/suites/{made['alpha'].suite_id}/")
    second = row_with(html, "Revision 2")
    assert "1 case added: rotate-logs-by-size-and-age 1 case changed: file-tree" in second
    assert "The first revision" in row_with(html, "Revision 1")
    assert "3 experiments" in row_with(html, "csv-merge-keep-order")


def test_a_case_shows_its_history_and_where_its_content_changed(made: Experiments, browse: Browser) -> None:
    case = Case.objects.get(name="file-tree")
    rerun = rows.experiment("again", suite=case.suite)
    ExperimentTrial.objects.create(
        experiment=rerun, source="imported", trust="reported", trial_name="t", case=case, attempt=1,
        checksum=experiment_rows.checksum("file-tree", 2), reported_outcome="reported_failed",
    )  # fmt: skip
    html = read(browse("viewer"), f"/cases/{case.pk}/")
    text = plain(html)
    assert "Reported: 4 of 8 passed, 8 of 8 attempts graded" in text
    assert text.index("again") < text.index("The task's content was another one") < text.index("nightly once")
    assert html.count("The task's content was another one") + html.count("The task&#x27;s content was another one") == 1


def test_what_was_proved_and_what_was_reported_is_never_added_up(site: Site, browse: Browser) -> None:
    reported, observed = rows.experiment(), rows.experiment("hosted", source="suite", trust="observed")
    trial = rows.trial(reported)
    rows.trial(observed, reported_outcome=None, observed_outcome="observed_failed")
    text = plain(read(browse("viewer"), f"/cases/{trial.case_id}/"))
    assert "Observed: 0 of 1 passed" in text and "Reported: 1 of 1 passed" in text and "1 of 2" not in text


# All of them


def test_no_page_interprets_or_hides_anything_of_a_job(site: Site, browse: Browser) -> None:
    text = f"{MARKUP}{TAGGED}\u200b\u202e"
    suite = Suite.objects.create(suite_id=text[:200], name=text[:200], created_by_name=text[:100])
    case = Case.objects.create(suite=suite, case_id="c", source=text[:200], name=text[:200])
    step, both = {"name": text, "rewards": {text: text}, "error": text}, []
    for name in ("one", "two"):
        one = rows.experiment(
            f"{name}{text[:200]}", name=text[:200], suite=suite, dataset=text[:200], agent_name=text[:200],
            agent_version=text[:200], model_name=text[:200], harbor_version=text[:60], error=text,
            overrides={text: text, "same": 1}, main_reward=text[:200], job_id=text[:60], checkpoint_id=text[:60],
        )  # fmt: skip
        trial = ExperimentTrial.objects.create(
            experiment=one, source="imported", trust="reported", trial_name=text[:200], case=case, attempt=1,
            checksum=f"{name}{text[:200]}", reported_outcome="errored", error_type=text[:200], error=text,
            agent_error=text[:200], usage_source=text[:16], agent_version=text[:200], conversation_id=text[:200],
            badges=[text], details={"times": {text: text}, "steps": [step, 7]},
        )  # fmt: skip
        rows.score(trial, name=text[:200], main=False, evaluator=text[:200], evaluator_version=text[:200])
        ExperimentFile.objects.create(experiment=one, trial=trial, path=text, state="missing", note=text[:200])
        both.append((one, trial))
    (one, trial), (two, _) = both
    client = browse("operator")
    for path in (
        "/experiments/",
        "/experiments/compare/",
        f"/experiments/compare/?e={one.key}&e={two.key}",
        f"/experiments/{one.key}/",
        f"/experiments/{one.key}/trials/{trial.pk}/",
        "/suites/",
        f"/suites/{suite.pk}/",
        f"/cases/{case.pk}/",
    ):
        html = read(client, path)
        assert not unseen_in(html) and "⟨U+E0072⟩" in html, path
        assert "<script>alert" not in html and "<img" not in html and "{{ 7|add:7 }}" in html, path


def test_every_page_asks_the_database_as_often_however_much_there_is(made: Experiments, browse: Browser) -> None:
    client, paths = browse("operator"), addresses(made)

    def asked() -> dict[str, int]:
        counts = {}
        for path in paths:
            with CaptureQueriesContext(connection) as queries:
                read(client, path)
            counts[path] = len(queries)
        return counts

    asked()
    few = asked()
    suite = made["alpha"].suite
    for n in range(3):
        more = rows.experiment(f"more-{n}", suite=suite, agent_name=f"agent {n}")
        for case in suite.cases.all():
            ExperimentTrial.objects.create(
                experiment=more, source="imported", trust="reported", trial_name=f"{case.pk}", case=case, attempt=1,
                reported_outcome="reported_passed",
            )  # fmt: skip
    assert asked() == few
    assert max(few.values()) <= 14
