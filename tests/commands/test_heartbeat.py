"""Long work shows that it goes on: with its last step and its age, and stdout keeps the results alone."""

import io
import re
import threading
from typing import Any

import pytest

from runs.management.printing import Printer
from runs.management.waiting import heartbeat
from tests.commands.calling import Terminal


class Heard(io.StringIO):
    """A stream whose `wait` returns once it holds these words."""

    def __init__(self) -> None:
        super().__init__()
        self._more = threading.Condition()

    def write(self, text: str) -> int:
        with self._more:
            self._more.notify_all()
            return super().write(text)

    def wait(self, words: str) -> None:
        with self._more:
            assert self._more.wait_for(lambda: re.search(words, self.getvalue()), timeout=60), self.getvalue()


@pytest.mark.parametrize("as_json", [False, True])
def test_in_a_pipe_a_step_is_told_again_on_stderr(as_json: bool) -> None:
    out, err = io.StringIO(), Heard()
    with heartbeat(Printer(out, err, as_json=as_json), "looking around", every_s=0.001) as report:
        err.wait(r"looking around, \d+ s so far")
        report("downloading\x1b[2J")
        err.wait(r"downloading\\x1b\[2J, \d+ s so far")
    assert out.getvalue() == ("" if as_json else "downloading\\x1b[2J\n")
    assert ("downloading\\x1b[2J\n" in err.getvalue()) is as_json


def test_short_work_says_nothing_beside_its_steps() -> None:
    out, err = io.StringIO(), io.StringIO()
    with heartbeat(Printer(out, err, as_json=False), "looking around") as report:
        report("ready")
    assert (out.getvalue(), err.getvalue()) == ("ready\n", "")


def test_on_a_terminal_the_last_line_moves_and_nothing_goes_to_stderr() -> None:
    out, err = Terminal(), io.StringIO()
    with heartbeat(Printer(out, err, as_json=False), "looking around") as report:
        report("ready")
    assert "ready\n" in out.getvalue() and err.getvalue() == ""


def test_the_thread_ends_with_the_work_even_when_it_fails() -> None:
    def fail(_: Any) -> None:
        raise ValueError

    with pytest.raises(ValueError), heartbeat(Printer(io.StringIO(), io.StringIO(), as_json=False), "x") as report:
        fail(report)
    assert not [thread for thread in threading.enumerate() if thread.name == "heartbeat"]
