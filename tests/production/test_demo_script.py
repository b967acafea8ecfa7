"""Ctrl-C ends everything that `script/demo` started: its processes have to get the signals themselves."""

import re
from pathlib import Path

SCRIPT = (Path(__file__).parents[2] / "script/demo").read_text()


def test_no_function_is_put_into_the_background_whose_subshell_would_take_the_signal():
    functions = re.findall(r"^(\w+)\(\) *{", SCRIPT, re.MULTILINE)
    started = re.findall(r"^(?=.* &(?: *#.*)?$)(?:\w+=\S+ )*(\S+)", SCRIPT.replace("\\\n", ""), re.MULTILINE)
    assert "manage" in functions and len(started) == 2
    assert set(started) == {'"$PYTHON"'}


def test_what_is_waited_for_ends_before_the_queue_does():
    ending = SCRIPT[SCRIPT.index("end() {") :]
    assert ending.index("wait ") < ending.index("embedded_redis.stop")
