"""Fills the database that ``DATABASE_URL`` names with 10,000 runs of 100 trials and times pages: one JSON line."""

import json
import os
import random
import sys
import time
from collections.abc import Callable
from typing import Any

RUNS = 10_000
TRIALS = 100
MANY_TRIALS = 5_000  # of one more run
RESOURCES = 10  # of each run
REQUESTS = 200
_ADMIN = ("run", "trial", "ownedresource", "auditentry")


def main() -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    _fill()
    print(json.dumps({"runs": RUNS, "trials": RUNS * TRIALS, "pages": _time_pages()}))


def _fill() -> None:
    from django.db import connection

    from runs.models import Run
    from tests.pages import factories

    site = factories.site()
    for kind in ("passed", "error"):
        factories.make_run(site, kind)
    with connection.cursor() as cursor:
        for kind, share in (("passed", 8), ("error", 2)):
            changed = {
                "id": "gen_random_uuid()",
                "created_at": "now() - g * interval '7 minutes'",
                "spec_sha256": "t.spec_sha256",
                "count_requested": str(TRIALS),
            }
            counts = {"passed": (TRIALS, 0, 0), "error": (TRIALS - 20, 10, 10)}[kind]
            changed |= dict(zip(("count_passed", "count_failed", "count_error"), map(str, counts), strict=True))
            changed |= {"count_evaluated": str(counts[0] + counts[1]), "count_cancelled": "0"}
            columns = [field.column for field in Run._meta.local_concrete_fields]
            values = ", ".join(changed.get(column, f't."{column}"') for column in columns)
            cursor.execute(
                f"insert into runs_run ({', '.join(columns)}) select {values} "
                "from runs_run t, generate_series(1, %s) g where t.id = %s",
                [RUNS * share // 10 - 1, site.runs[kind].pk],
            )
        _add_trials(cursor, TRIALS)
        _fill_one_with_many_trials(cursor, site.runs["passed"].pk)
        cursor.execute(
            "insert into runs_ownedresource (run_id, nonce, kind, role, trial, resource_id, stage, outcome, detail, "
            "attempts, updated_at) select r.id, md5(r.id::text || g), 'container', 'agent', g, md5(r.id::text || g), "
            "'removed', 'removed', '', 1, now() from runs_run r, generate_series(1, %s) g where r.count_requested = %s",
            [RESOURCES, TRIALS],
        )
        cursor.execute(
            "insert into runs_auditentry (at, kind, actor_id, actor_name, subject, run_id, detail) "
            "select r.created_at, kind, 1, 'operator-1', '', r.id, '{}' from runs_run r, "
            "(values ('preview'), ('start'), ('download')) acts(kind)"
        )
        cursor.execute("analyze")
        cursor.execute("select count(*) from runs_trial")
        print(f"{cursor.fetchone()[0]:,} trials", file=sys.stderr)


def _add_trials(cursor: Any, count: int) -> None:
    """Give every run of ``count`` trials its trials, each like the first one that there is."""
    from runs.models import Trial

    columns = [field.column for field in Trial._meta.local_concrete_fields if field.column != "id"]
    changed = {"run_id": "r.id", "ordinal": "g", "task_name": "'task-' || g"}
    values = ", ".join(changed.get(column, f't."{column}"') for column in columns)
    cursor.execute(
        f"insert into runs_trial ({', '.join(columns)}) select {values} "
        "from runs_run r, generate_series(1, %s) g, runs_trial t "
        "where t.id = (select min(id) from runs_trial) and r.count_requested = %s",
        [count, count],
    )


def _fill_one_with_many_trials(cursor: Any, like: object) -> None:
    """One run of ``MANY_TRIALS`` trials, beside those of a hundred."""
    from runs.models import Run

    changed = {"id": "gen_random_uuid()", "count_requested": "%s", "count_evaluated": "%s", "count_passed": "%s"}
    columns = [field.column for field in Run._meta.local_concrete_fields]
    values = ", ".join(changed.get(column, f'"{column}"') for column in columns)
    cursor.execute(
        f"insert into runs_run ({', '.join(columns)}) select {values} from runs_run where id = %s",
        [MANY_TRIALS] * 3 + [like],
    )
    _add_trials(cursor, MANY_TRIALS)


def _time_pages() -> dict[str, dict[str, float]]:
    from django.contrib.auth.models import User
    from django.test import Client

    from runs.models import Run

    client = Client(HTTP_HOST="localhost")
    client.force_login(User.objects.get(username="operator-1"))
    staff = Client(HTTP_HOST="localhost")
    staff.force_login(User.objects.get(username="admin-1"))
    keys = [pk.hex for pk in Run.objects.values_list("pk", flat=True)]
    of_many = Run.objects.get(count_requested=MANY_TRIALS).key
    chosen = random.Random(7)
    queries = ("", "&verdict=passed", "&state=ended", "&who=operator-1", "&endpoint=serving-a&cleanup=failed")
    return {
        "runs list": _timed(client, lambda: f"/runs/?before={chosen.choice(keys)}{chosen.choice(queries)}"),
        "run page": _timed(client, lambda: f"/runs/{chosen.choice(keys)}/"),
        "run page of 5,000 trials": _timed(client, lambda: f"/runs/{of_many}/?from={chosen.randrange(MANY_TRIALS)}"),
        "overview": _timed(client, lambda: "/"),
        "metrics": _timed(client, lambda: "/metrics"),
        **{f"admin's {name}": _timed(staff, lambda name=name: f"/admin/runs/{name}/") for name in _ADMIN},  # type: ignore[misc]
    }


def _timed(client: object, address: Callable[[], str]) -> dict[str, float]:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    client.get(address())  # type: ignore[attr-defined]
    times, busy = [], []
    for _ in range(REQUESTS):
        path = address()
        before, worked = time.perf_counter(), time.process_time()
        response = client.get(path)  # type: ignore[attr-defined]
        times.append((time.perf_counter() - before) * 1000)
        busy.append((time.process_time() - worked) * 1000)
        assert response.status_code == 200, path
    with CaptureQueriesContext(connection) as captured:
        client.get(address())  # type: ignore[attr-defined]
    times.sort()
    busy.sort()
    return {
        "cpu_p95_ms": round(busy[int(len(busy) * 0.95)], 1),
        "p50_ms": round(times[len(times) // 2], 1),
        "p95_ms": round(times[int(len(times) * 0.95)], 1),
        "queries": len(captured),
    }


if __name__ == "__main__":
    main()
