"""What runs inside the limits probe's container: it tries to break every limit and prints what stopped it.

Standard library of Python 3.11 only, run as ``python3 -I -S -c <this file>``; prints one JSON object a line.
Nothing imports it.
"""

import errno
import json
import os
import resource
import signal
import time
from typing import NoReturn

BURN_S = 0.3
# Far more than the limit, and few enough to fit the probe's memory where no limit stops them.
MOST_CHILDREN = 128
SCRATCH = "/scratch"
CHUNK = 1024 * 1024


def say(name: str, **facts: object) -> None:
    print(json.dumps({"name": name, **facts}), flush=True)


def status_fields() -> "dict[str, str]":
    with open("/proc/self/status") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def security() -> None:
    fields = status_fields()
    say("no_new_privileges", value=fields.get("NoNewPrivs"))
    say("seccomp", value=fields.get("Seccomp"))
    say("capabilities", value=fields.get("CapBnd"))
    say("core", value=resource.getrlimit(resource.RLIMIT_CORE)[1])
    say("no_network", value=sorted(os.listdir("/sys/class/net")))
    try:
        os.close(os.open("/benchsite-probe", os.O_CREAT | os.O_WRONLY))
        say("read_only_root", value="written")
    except OSError as error:
        say("read_only_root", value=errno.errorcode[error.errno or 0])


def open_files() -> None:
    opened: list[int] = []
    stopped: str | None = None
    try:
        while len(opened) < 4096:
            opened.append(os.open("/dev/null", os.O_RDONLY))
    except OSError as error:
        stopped = errno.errorcode[error.errno or 0]
    count = len(opened)
    for descriptor in opened:
        os.close(descriptor)
    say("nofile", value=count, stopped=stopped)


def storage(limit: int) -> None:
    written = 0
    stopped: str | None = None
    try:
        with open(f"{SCRATCH}/fill", "wb", buffering=0) as file:
            while written < 4 * limit:
                written += file.write(b"x" * CHUNK)
    except OSError as error:
        stopped = errno.errorcode[error.errno or 0]
    os.unlink(f"{SCRATCH}/fill")
    say("storage", value=written, stopped=stopped)


def end(children: "list[int]") -> None:
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def processes() -> None:
    children: list[int] = []
    stopped: str | None = None
    try:
        while len(children) < MOST_CHILDREN:
            child = os.fork()
            if child == 0:
                signal.pause()
            children.append(child)
    except OSError as error:
        stopped = errno.errorcode[error.errno or 0]
    end(children)
    say("pids", value=len(children), stopped=stopped)


def burn(until: float) -> NoReturn:
    while time.monotonic() < until:
        pass
    os._exit(0)


def numbers(*paths: str) -> "list[str]":
    """The words of the first of these files that can be read; empty when there is none."""
    for path in paths:
        try:
            with open(path) as file:
                return file.read().split()
        except OSError:
            continue
    return []


def cpu_quota() -> "float | None":
    """The CPUs that the kernel gives this cgroup at most, as it says itself; None when it sets no bound."""
    words = numbers("/sys/fs/cgroup/cpu.max")
    if not words:
        folders = ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct")
        for name in ("quota", "period"):
            words += numbers(*(f"{folder}/cpu.cfs_{name}_us" for folder in folders))
    if len(words) != 2 or not all(word.isdigit() for word in words):
        return None
    return int(words[0]) / int(words[1])


def cpu() -> None:
    started, used = time.monotonic(), os.times()
    children = []
    for _ in range(2):
        child = os.fork()
        if child == 0:
            burn(started + BURN_S)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    now = os.times()
    seconds = now.children_user + now.children_system - used.children_user - used.children_system
    say("cpu", value=seconds / (time.monotonic() - started), quota=cpu_quota())


def memory(limit: int) -> None:
    child = os.fork()
    if child == 0:
        held = bytearray(2 * limit)
        for place in range(0, len(held), 4096):
            held[place] = 1
        os._exit(0)
    _, code = os.waitpid(child, 0)
    say("memory", value=os.WTERMSIG(code) if os.WIFSIGNALED(code) else None)


def main() -> None:
    limits = json.loads(os.environ["LIMITS"])
    for check in (security, open_files, processes, cpu):
        check()
    storage(limits["storage"])
    memory(limits["memory"])


main()
