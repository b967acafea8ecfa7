"""50 people watch a run, operators ask 20 times a second, for 60 s, while runs are executed: the slowest 5%.

A production-like site is made for it: granian as its unit starts it, PostgreSQL, a queue with a password, a worker with
the real engine and the real Harbor. Clients and site share this machine's processors.
"""

import http.client
import itertools
import json
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit
from uuid import UUID

import psycopg
from django.conf import settings

from runs.scripted.scripts import ALIAS_PREFIX, Mode
from runs.smoke.endpoint import serve
from tests.benchmarks import processor_time
from tests.benchmarks.result import Result
from tests.postgresql import scratch_postgresql
from tests.production.serving import NAME, Browser, granian, manage, production, queue
from tests.production.sites import ROOT, Site

WATCHERS = 50
ASKED_EACH_S = 20
SECONDS = 60.0
POLL_EVERY_S = 2.0
TARGET_MS = 200.0
PASSWORD = "a long enough pass phrase"
ENDPOINT = ALIAS_PREFIX + Mode.POSITIVE
SET_UP = """
from django.contrib.auth.models import Group, User
from runs.services import registry
registry.register_endpoint(os.environb[b"RECORD"], user=None)
olga = User.objects.create_user("olga", password=os.environ["PASSWORD"])
olga.groups.set(Group.objects.filter(name="operator"))
"""
POLLER = re.compile(r"""hx-get="(/runs/[0-9a-f]{32}/live/)"[^>]* hx-headers='([^']+)'""")
HEADERS = {"Host": NAME, "X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.9"}


@dataclass
class Seen:
    """Every answer's milliseconds by kind, and what was no good answer."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    times: dict[str, list[float]] = field(default_factory=dict)
    statuses: Counter[int] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)

    def add(self, kind: str, path: str, status: int, began: float) -> None:
        with self.lock:
            self.times.setdefault(kind, []).append((time.perf_counter() - began) * 1000)
            self.statuses[status] += 1
            if status not in (200, 302, 304):
                self.errors.append(f"{status} {path}")

    def failed(self, path: str, error: Exception) -> None:
        with self.lock:
            self.errors.append(f"{type(error).__name__} {path}")


def measure() -> Result:
    _say(f"load before: {processor_time.load()}")
    with tempfile.TemporaryDirectory(prefix="bs-load-") as name, _site(Path(name)) as site:
        alone = _seconds(site.database, _start(site))
        seen, loaded = _under_load(site)
    every = [value for values in seen.times.values() for value in values]
    for kind, values in sorted(seen.times.items()):
        _say(f"{kind}: {len(values):,} answers, p50 {_p(values, 50):.0f} ms, p95 {_p(values, 95):.0f} ms")
    _say(f"statuses {dict(seen.statuses)}; {len(seen.errors)} errors {sorted(set(seen.errors))[:5]}")
    _say(f"a run alone {alone:.1f} s; under load {', '.join(f'{seconds:.1f}' for seconds in loaded)} s")
    if seen.errors:
        raise RuntimeError(f"{len(seen.errors)} answers were errors")
    if len(seen.times["polls"]) < WATCHERS * SECONDS / POLL_EVERY_S / 2:
        raise RuntimeError("the pages hardly asked: this measured something else")
    return Result("load", _p(every, 95), "ms", TARGET_MS)


@dataclass(frozen=True)
class Loaded:
    """The site under load."""

    environment: dict[str, str]
    database: str
    port: int

    def computed(self) -> dict[str, float]:
        """Seconds of processor time so far, by program."""
        folder = parse_qs(urlsplit(self.database).query)["host"][0]
        words = {"site": f"--port {self.port}", "PostgreSQL": folder}
        return {name: processor_time.spent(word) for name, word in words.items()} | {"clients": time.process_time()}


@contextmanager
def _site(folder: Path) -> Iterator[Loaded]:
    with ExitStack() as stack:
        database = stack.enter_context(scratch_postgresql())
        redis = stack.enter_context(queue(folder))
        (folder / "data").mkdir(mode=0o700)
        environment = production(Site(folder / "data", database), redis, folder)
        environment["BENCHSITE_ASSETS"] = str(settings.ASSETS)
        for command in (
            ("migrate", "--verbosity", "0"),
            ("collectstatic", "--no-input", "--verbosity", "0"),
            ("prepare", "--offline"),
            ("worker", "--report"),
        ):
            _done(environment, *command)
        endpoint = stack.enter_context(serve())
        record = json.dumps(endpoint.record(Mode.POSITIVE))
        _done({**environment, "RECORD": record, "PASSWORD": PASSWORD}, "shell", "-v0", "-c", SET_UP)
        stack.enter_context(_worker(environment, folder))
        yield Loaded(environment, database, stack.enter_context(granian(environment, folder)))


def _done(environment: dict[str, str], *arguments: str) -> str:
    done = manage(environment, *arguments)
    if done.returncode != 0:
        raise RuntimeError(f"{arguments}: {done.stdout}{done.stderr}")
    return done.stdout


@contextmanager
def _worker(environment: dict[str, str], folder: Path) -> Iterator[None]:
    command = [sys.executable, str(ROOT / "manage.py"), "worker", "--no-report"]
    with (
        (folder / "worker.log").open("wb") as log,
        subprocess.Popen(command, env=environment, stdout=log, stderr=log) as process,
    ):
        try:
            yield
        finally:
            process.terminate()


def _start(site: Loaded) -> str:
    return str(json.loads(_done(site.environment, "start", "--endpoint", ENDPOINT, "--json"))["run"])


def _ended(database: str, run: str) -> float | None:
    """Seconds from a run's claim to its end, which must be a pass; None while it runs. Starts no process."""
    query = (
        "select verdict, extract(epoch from ended_at - claimed_at), failure_code || ' ' || "
        "(select string_agg(failure_code, ' ') from runs_trial where run_id = runs_run.id) from runs_run where id = %s"
    )
    with psycopg.connect(database) as connection:
        (row,) = connection.execute(query, (UUID(run),))
    if row[0] not in (None, "passed"):
        raise RuntimeError(f"run {run} ended {row[0]}: {row[2]}")
    return None if row[0] is None else float(row[1])


def _seconds(database: str, run: str) -> float:
    """Wait for a run's end."""
    while (seconds := _ended(database, run)) is None:
        time.sleep(0.5)
    return seconds


def _under_load(site: Loaded) -> tuple[Seen, list[float]]:
    """What the clients saw, and how long each run took meanwhile."""
    port, cookies = site.port, _signed_in(site.port)
    seen, over, current = Seen(), threading.Event(), [_start(site)]
    threads = [
        threading.Thread(target=_watch, args=(port, cookies, current, seen, over, number / WATCHERS))
        for number in range(WATCHERS)
    ]
    threads += [threading.Thread(target=_operate, args=(port, cookies, current, seen, over))]
    for thread in threads:
        thread.start()
    end, loaded, before = time.monotonic() + SECONDS, [], site.computed()
    try:
        while time.monotonic() < end:
            seconds = _ended(site.database, current[0])
            if seconds is None:
                time.sleep(0.5)
                continue
            loaded.append(seconds)
            current[0] = _start(site)
    finally:
        took = {name: (after - before[name]) / SECONDS for name, after in site.computed().items()}
        over.set()
        for thread in threads:
            thread.join()
    _say(f"processors taken: {', '.join(f'{name} {share:.2f}' for name, share in took.items())}")
    return seen, [*loaded, _seconds(site.database, current[0])]


def _signed_in(port: int) -> str:
    browser = Browser(port)
    browser.ask("GET", "/sign-in/")
    form = {"username": "olga", "password": PASSWORD, "csrfmiddlewaretoken": browser.cookies["csrftoken"]}
    if browser.ask("POST", "/sign-in/", urlencode(form)).status != 302:
        raise RuntimeError("the operator could not sign in")
    return "; ".join(f"{name}={value}" for name, value in browser.cookies.items())


def _watch(port: int, cookies: str, current: list[str], seen: Seen, over: threading.Event, offset: float) -> None:
    """As a page does it: opened once, then it asks every two seconds with the tags that it has, until told not to."""
    over.wait(offset * POLL_EVERY_S)
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    run, poller = "", None
    while not over.is_set():
        began = time.monotonic()
        if run != current[0]:
            run = current[0]
            poller = _poller(_ask(link, f"/runs/{run}/", cookies, seen, "opened pages")[1])
        elif poller is not None:
            status, text = _ask(link, poller[0], cookies, seen, "polls", poller[1])
            poller = _poller(text) if status == 200 else poller
        over.wait(max(0.0, POLL_EVERY_S - (time.monotonic() - began)))
    link.close()


def _poller(text: str) -> tuple[str, str] | None:
    """The address that a page asks and the tags that it says it has; None when it asks no more."""
    found = POLLER.search(text)
    return (found[1], json.loads(found[2])["If-None-Match"]) if found else None


def _operate(port: int, cookies: str, current: list[str], seen: Seen, over: threading.Event) -> None:
    """20 questions a second of every kind, each in a thread of its own, whether earlier ones were answered or not."""
    paths = itertools.cycle(["/", "/runs/", "/runs/{run}/", "/runs/{run}/trials/1/", "/runs/new/", "/workers/",
                             "/runs/{run}/evidence/", "/endpoints/", "/profiles/", "/runs/compare/"])  # fmt: skip
    asking, began = [], time.monotonic()
    for number in itertools.count():
        if over.wait(max(0.0, began + number / ASKED_EACH_S - time.monotonic())):
            break
        path = next(paths).format(run=current[0])
        thread = threading.Thread(target=_ask_once, args=(port, path, cookies, seen))
        thread.start()
        asking.append(thread)
    for thread in asking:
        thread.join()


def _ask_once(port: int, path: str, cookies: str, seen: Seen) -> None:
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    _ask(link, path, cookies, seen, "operators' pages")
    link.close()


def _ask(
    link: http.client.HTTPConnection, path: str, cookies: str, seen: Seen, kind: str, tag: str = ""
) -> tuple[int, str]:
    headers = {**HEADERS, "Cookie": cookies, **({"If-None-Match": tag, "HX-Request": "true"} if tag else {})}
    began = time.perf_counter()
    try:
        link.request("GET", path, headers=headers)
        answer = link.getresponse()
        text = answer.read().decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        link.close()
        seen.failed(path, error)
        return 0, ""
    seen.add(kind, path, answer.status, began)
    return answer.status, text


def _p(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100)[percent - 1] if len(values) > 1 else values[0]


def _say(text: str) -> None:
    print(text, file=sys.stderr)
