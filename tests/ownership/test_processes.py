"""A process group is stopped for certain, and no other process ever gets a signal (design 4, 3.10)."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from runs.engine.trials import trial_process
from runs.engine.trials.processes import POLL_S, Launched, LaunchFailed, Stopped, launch, stop_group
from runs.engine.trials.trial_process import TERM_WAIT_S
from runs.ownership import ProcessIdentity, group_members, identity_is_alive, process_identity
from runs.ownership.processes import process_stat

OWNER = "0" * 32
SLEEPS = "import time; time.sleep(60)"
DEAF = "import signal as s, time; s.signal(s.SIGTERM, s.SIG_IGN); print('ready', flush=True); time.sleep(60)"
# A leader that leaves a deaf child behind and ends.
LEAVES_A_CHILD = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {DEAF!r}])"


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., Launched]]:
    """Launches Python programs; whatever of them still lives is killed by its own group afterwards."""
    all_launched: list[Launched] = []

    def start(program: str, *rest: str, owner: str = OWNER, environment: dict[str, str] | None = None) -> Launched:
        with (tmp_path / "log").open("ab") as output:
            launched = launch(
                [sys.executable, "-c", program, *rest],
                owner=owner,
                environment=environment or {},
                directory=tmp_path,
                output=output,
            )
        all_launched.append(launched)
        return launched

    yield start
    for launched in all_launched:
        for pid in group_members(launched.identity):
            os.kill(pid, signal.SIGKILL)
        launched.process.wait()


def log(tmp_path: Path) -> str:
    return (tmp_path / "log").read_text()


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.01)


def state(launched: Launched) -> str | None:
    stat = process_stat(launched.identity.pid)
    return None if stat is None else stat.state


def orphaned(started: Callable[..., Launched], tmp_path: Path, owner: str = OWNER) -> Launched:
    """A group whose leader has ended and was reaped, while a child that ignores TERM lives on."""
    launched = started(LEAVES_A_CHILD, owner=owner)
    launched.process.wait()
    until(lambda: "ready" in log(tmp_path))
    return launched


class _Owning:
    """A journal of which only the owner is asked."""

    def read(self) -> SimpleNamespace:
        return SimpleNamespace(owner=OWNER)


class TestLaunching:
    def test_a_child_leads_a_session_of_its_own(self, started: Callable[..., Launched]) -> None:
        identity = started(SLEEPS).identity
        assert identity.pid == identity.pgid == identity.sid != os.getpid()
        assert identity_is_alive(identity)

    def test_it_gets_exactly_its_environment(
        self, started: Callable[..., Launched], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ENDPOINT_SECRET", "s3cret")
        started("import os; print(sorted(os.environ))", environment={"HOME": "/h"}).process.wait()
        names = set(eval(log(tmp_path))) - {"LC_CTYPE"}
        assert names == {"HOME", "BENCHSITE_OWNER"}

    def test_the_first_line_and_the_limits_are_there_before_it_reads(self, tmp_path: Path) -> None:
        program = "import resource; print(input(), resource.getrlimit(resource.RLIMIT_NOFILE))"
        with (tmp_path / "log").open("wb") as output:
            launched = launch(
                [sys.executable, "-c", program],
                owner=OWNER,
                environment={},
                directory=tmp_path,
                output=output,
                first_line=b'{"token": "t"}\n',
                limits={resource.RLIMIT_NOFILE: 100},
            )
        assert launched.process.wait() == 0
        assert log(tmp_path) == '{"token": "t"} (100, 100)\n'

    def test_no_descriptor_but_the_three_is_inherited(self, started: Callable[..., Launched], tmp_path: Path) -> None:
        descriptor = os.open(tmp_path, os.O_RDONLY)
        os.set_inheritable(descriptor, True)
        started("import os; print(len(os.listdir('/proc/self/fd')))").process.wait()
        os.close(descriptor)
        assert int(log(tmp_path)) == 4  # the three and the listing's own

    def test_a_program_that_is_not_there_is_a_typed_failure(self, tmp_path: Path) -> None:
        with (tmp_path / "log").open("wb") as output, pytest.raises(LaunchFailed) as raised:
            launch(["/nowhere"], owner=OWNER, environment={}, directory=tmp_path, output=output)
        assert raised.value.code == "launch_failed"

    def test_a_program_that_ends_at_once_gives_its_exit_code(self, started: Callable[..., Launched]) -> None:
        launched = started("raise SystemExit(3)")
        until(lambda: launched.poll() is not None)
        assert launched.poll() == 3


class TestIdentity:
    def test_a_pid_alone_proves_nothing(self, started: Callable[..., Launched]) -> None:
        mine = started(SLEEPS).identity
        for other in (
            replace(mine, start_ticks=mine.start_ticks - 1),
            replace(mine, pgid=mine.pgid + 1),
            replace(mine, sid=mine.sid + 1),
            replace(mine, boot_id="0"),
        ):
            assert not identity_is_alive(other)

    def test_a_command_name_with_spaces_and_parentheses_is_read_right(self, tmp_path: Path) -> None:
        program = tmp_path / "a) S 1 (b"
        program.write_text("#!/bin/sh\nread line\n")
        program.chmod(0o700)
        with subprocess.Popen([program], stdin=subprocess.PIPE) as process:
            found = process_identity(process.pid)
            process.communicate()
        assert found is not None and found.pgid == os.getpgid(0) and found.sid == os.getsid(0)

    def test_a_process_that_is_gone_has_no_identity(self, started: Callable[..., Launched]) -> None:
        launched = started("pass")
        launched.process.wait()
        assert process_identity(launched.identity.pid) is None
        assert not identity_is_alive(launched.identity)


class TestStopping:
    def test_term_is_enough_for_a_group_that_listens(self, started: Callable[..., Launched]) -> None:
        launched = started(SLEEPS)
        report = stop_group(launched.identity, owner=OWNER)
        assert (report.outcome, report.signalled, report.left) == (
            Stopped.TERMINATED,
            (launched.identity.pid,),
            (),
        )

    def test_a_group_that_ignores_term_is_killed(self, started: Callable[..., Launched], tmp_path: Path) -> None:
        launched = started(DEAF)
        until(lambda: "ready" in log(tmp_path))
        assert stop_group(launched.identity, owner=OWNER, term_wait_s=0.2).outcome is Stopped.KILLED
        assert launched.process.wait() == -signal.SIGKILL

    @pytest.mark.parametrize("term_wait_s", [0.0, TERM_WAIT_S, 2 * TERM_WAIT_S])
    def test_term_has_its_whole_wait_before_kill(
        self, started: Callable[..., Launched], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, term_wait_s: float
    ) -> None:
        """In the time of the ladder's own clock; a real process, and the signals that it really got."""
        launched = started(DEAF)
        until(lambda: "ready" in log(tmp_path))
        clock, signals, send = [100.0], [], signal.pidfd_send_signal

        def sent(descriptor: int, number: signal.Signals) -> None:
            signals.append((number, clock[0] - 100))
            send(descriptor, number)

        def sleep(seconds: float) -> None:
            clock[0] += seconds
            if signals[-1][0] is signal.SIGKILL:
                time.sleep(seconds)  # the kernel needs its own time

        monkeypatch.setattr(signal, "pidfd_send_signal", sent)
        report = stop_group(
            launched.identity, owner=OWNER, term_wait_s=term_wait_s, monotonic=lambda: clock[0], sleep=sleep
        )
        (term, asked), (kill, killed) = signals
        assert (report.outcome, term, kill, asked) == (Stopped.KILLED, signal.SIGTERM, signal.SIGKILL, 0)
        assert term_wait_s <= killed <= term_wait_s + POLL_S + 1e-6

    def test_a_trial_gives_harbor_its_time_to_save_its_logs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Measured: at most 1.7 s on a busy host."""
        asked: dict[str, float] = {}
        monkeypatch.setattr(trial_process, "stop_group", lambda identity, *, owner, **waits: asked.update(waits))
        process = trial_process.TrialProcess(SimpleNamespace(), _Owning(), 1, Path(), 60, range(70_000, 70_002))  # type: ignore[arg-type]
        process.child = SimpleNamespace(identity=None)  # type: ignore[assignment]
        process.stop()
        assert asked == {"term_wait_s": TERM_WAIT_S, "kill_wait_s": trial_process.KILL_WAIT_S}
        assert TERM_WAIT_S > 1.7 and TERM_WAIT_S + trial_process.KILL_WAIT_S < 5

    def test_a_stopped_process_is_killed_too(self, started: Callable[..., Launched]) -> None:
        launched = started(SLEEPS)
        os.kill(launched.identity.pid, signal.SIGSTOP)
        until(lambda: state(launched) == "T")
        assert stop_group(launched.identity, owner=OWNER, term_wait_s=0.2).outcome is Stopped.KILLED

    def test_stopping_twice_is_harmless(self, started: Callable[..., Launched]) -> None:
        launched = started(SLEEPS)
        assert stop_group(launched.identity, owner=OWNER).outcome is Stopped.TERMINATED
        for _ in range(2):
            assert stop_group(launched.identity, owner=OWNER).outcome is Stopped.ALREADY_GONE

    def test_members_without_their_leader_are_not_already_stopped(
        self, started: Callable[..., Launched], tmp_path: Path
    ) -> None:
        launched = orphaned(started, tmp_path)
        members = group_members(launched.identity)
        assert len(members) == 1 and launched.identity.pid not in members
        report = stop_group(launched.identity, owner=OWNER, term_wait_s=0.2)
        assert (report.outcome, report.signalled) == (Stopped.KILLED, tuple(members))
        assert group_members(launched.identity) == []

    def test_members_of_a_leader_that_was_not_reaped_are_stopped(
        self, started: Callable[..., Launched], tmp_path: Path
    ) -> None:
        launched = started(LEAVES_A_CHILD)
        until(lambda: "ready" in log(tmp_path))
        assert stop_group(launched.identity, owner="f" * 32, term_wait_s=0.2).outcome is Stopped.KILLED

    def test_members_without_their_leader_and_without_our_mark_get_no_signal(
        self, started: Callable[..., Launched], tmp_path: Path
    ) -> None:
        launched = orphaned(started, tmp_path, owner="f" * 32)
        members = group_members(launched.identity)
        report = stop_group(launched.identity, owner=OWNER)
        assert (report.outcome, report.signalled, report.left) == (Stopped.UNVERIFIABLE, (), tuple(members))
        assert group_members(launched.identity) == members

    def test_a_reused_pid_gets_no_signal(self, started: Callable[..., Launched]) -> None:
        launched = started(SLEEPS)
        recorded = replace(launched.identity, start_ticks=launched.identity.start_ticks - 100)
        report = stop_group(recorded, owner=OWNER)
        assert (report.outcome, report.signalled) == (Stopped.UNVERIFIABLE, ())
        assert not report.outcome.gone
        assert identity_is_alive(launched.identity)

    def test_a_group_of_an_earlier_boot_is_gone(self, started: Callable[..., Launched]) -> None:
        launched = started(SLEEPS)
        report = stop_group(replace(launched.identity, boot_id="an earlier boot"), owner=OWNER)
        assert (report.outcome, report.signalled) == (Stopped.ALREADY_GONE, ())
        assert identity_is_alive(launched.identity)

    @pytest.mark.parametrize(("run", "other"), [("r1", "r10"), ("r10", "r1")])
    def test_decoys_that_name_the_run_survive(self, started: Callable[..., Launched], run: str, other: str) -> None:
        decoys = [started(SLEEPS, name, owner=name * 8) for name in (run, other)]
        ours = started(SLEEPS, run)
        assert stop_group(ours.identity, owner=OWNER).outcome is Stopped.TERMINATED
        assert all(identity_is_alive(decoy.identity) for decoy in decoys)

    def test_the_callers_own_group_is_never_part_of_it(self, started: Callable[..., Launched]) -> None:
        launched = started(SLEEPS)
        assert os.getpid() not in group_members(launched.identity)

    def test_a_child_that_ends_between_look_and_signal_is_no_failure(
        self, started: Callable[..., Launched], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        launched = started(SLEEPS)
        opened = os.pidfd_open

        def open_after_its_end(pid: int) -> int:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            launched.process.wait()
            return opened(pid)

        monkeypatch.setattr("os.pidfd_open", open_after_its_end)
        assert stop_group(launched.identity, owner=OWNER).outcome is Stopped.ALREADY_GONE


def test_an_identity_is_plain_data() -> None:
    found = process_identity(os.getpid())
    assert isinstance(found, ProcessIdentity)
    assert hash(found) == hash(replace(found))
