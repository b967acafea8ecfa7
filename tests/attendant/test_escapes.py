"""What code inside the sandbox tries, for real; and the same with one defence taken away, which then gets through.

An attempt prints `reached` when it got what it must not get. So a test fails when its defence is gone, and also when
its attempt would not have worked anyway.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from runs.attendant.sandbox import (
    GO,
    PRIVATE_BYTES,
    PRIVATE_INODES,
    Sandbox,
    missing_programs,
    sandbox_user,
    system_call_filter,
)

pytestmark = pytest.mark.harbor_compatibility

PYTHON = Path(sys.prefix)
UIDS = range(70_000, 70_064)
PREAMBLE = """
import ctypes, errno, os, resource, socket, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
SECRET, PORT, ABSTRACT, WATCHED = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
def call(number, *args):
    if libc.syscall(number, *args) == -1:
        raise OSError(ctypes.get_errno(), "refused")
def attempt():
"""
END = """
    return True
try:
    print("reached" if attempt() else "nothing", flush=True)
except BaseException as error:
    print(type(error).__name__, error, flush=True)
"""

type Weakening = Callable[[list[str]], list[str]]


def without(*parts: str) -> Weakening:
    """Take these arguments away, each with the values behind it up to the next option."""

    def weaken(argv: list[str]) -> list[str]:
        kept: list[str] = []
        skipping = False
        for position, part in enumerate(argv):
            if part in parts:
                skipping = True
                continue
            if skipping and not part.startswith("-") and argv[position - 1] in parts and part.isdigit():
                continue
            skipping = False
            kept.append(part)
        return kept

    return weaken


def as_the_worker(argv: list[str]) -> list[str]:
    """No uid of its own."""
    start = argv.index("setpriv")
    argv = [*argv[:start], *argv[argv.index("--", start) + 1 :]]
    return [re.sub(r",uid=[0-9]+,gid=[0-9]+,", ",uid=0,gid=0,", part) for part in argv]


def with_arguments(*more: str) -> Weakening:
    """Further arguments for bubblewrap, behind all others."""

    def weaken(argv: list[str]) -> list[str]:
        end = len(argv) - 1 - argv[::-1].index("--")
        return [*argv[:end], *more, *argv[end:]]

    return weaken


def private_folder(options: str, others: str) -> Weakening:
    """Other mount options for the one folder that can be written."""
    return lambda argv: [part.replace(options, others) for part in argv]


def limit(name: str) -> Weakening:
    return lambda argv: [part for part in argv if not part.startswith(f"--{name}=")]


def both(*weakenings: Weakening) -> Weakening:
    def weaken(argv: list[str]) -> list[str]:
        for each in weakenings:
            argv = each(argv)
        return argv

    return weaken


no_filter = without("--seccomp")
host_files = both(as_the_worker, with_arguments("--bind", "/", "/"))
host_network = with_arguments("--share-net")


def host_processes(argv: list[str]) -> list[str]:
    """Every namespace but that of processes, and the host's /proc."""
    shared = ["--unshare-ipc", "--unshare-net", "--unshare-uts", "--unshare-cgroup"]
    where = argv.index("--unshare-all")
    argv = [*argv[:where], *shared, *argv[where + 1 :]]
    return with_arguments("--bind", "/proc", "/proc")(as_the_worker(without("--disable-userns")(argv)))


def writable_usr(argv: list[str]) -> list[str]:
    where = argv.index("/usr") - 1
    return [*argv[:where], "--bind", *argv[where + 1 :]]


def mounted_at(path: Path) -> Weakening:
    """A folder of the host, writable at its own place."""

    def weaken(argv: list[str]) -> list[str]:
        where = argv.index("--bind")
        return [*argv[:where], "--bind", str(path), str(path), *argv[where:]]

    return weaken


@dataclass(frozen=True)
class Attempt:
    name: str
    code: str
    weaken: Weakening


def attempts() -> Iterator[Attempt]:
    yield Attempt("the engine's socket", "socket.socket(socket.AF_UNIX).connect('/var/run/docker.sock')", host_files)
    yield Attempt("the passwords of the host", "open('/etc/shadow').read()", host_files)
    yield Attempt("a file of the run", "open(SECRET).read()", host_files)
    yield Attempt("the folder of the run", "assert 'journal.json' in os.listdir(os.path.dirname(SECRET))", host_files)
    yield Attempt("writing beside the run", "open(SECRET + '.forged', 'w').write('x')", host_files)
    yield Attempt("a link to a file of the run", "os.symlink(SECRET, 'l'); open('l').read()", host_files)
    yield Attempt("devices of the host", _DEVICES, both(as_the_worker, with_arguments("--dev-bind", "/dev", "/dev")))
    yield Attempt(
        "programs of the host, written to", "assert not os.statvfs('/usr').f_flag & os.ST_RDONLY", writable_usr
    )
    yield Attempt(
        "the root, written to",
        "open('/forged', 'w')",
        lambda argv: [
            part
            for position, part in enumerate(argv)
            if not (part == "--remount-ro" and argv[position + 1] == "/")
            and not (part == "/" and argv[position - 1] == "--remount-ro")
        ],
    )
    yield Attempt(
        "memory behind /dev/shm",
        "open('/dev/shm/x', 'w')",
        lambda argv: [
            part
            for position, part in enumerate(argv)
            if not (part == "--remount-ro" and argv[position + 1] == "/dev")
            and not (part == "/dev" and argv[position - 1] == "--remount-ro")
        ],
    )
    yield Attempt("a process of the host", "open(f'/proc/{WATCHED}/cmdline').read()", host_processes)
    yield Attempt("a signal to a process of the host", "os.kill(WATCHED, 0)", host_processes)
    yield Attempt("the internet's sockets", "socket.socket(socket.AF_INET)", no_filter)
    yield Attempt("netlink", "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)", no_filter)
    yield Attempt(
        "a port of the host", "socket.create_connection(('127.0.0.1', PORT), 2)", both(no_filter, host_network)
    )
    yield Attempt(
        "an abstract socket of the host", "socket.socket(socket.AF_UNIX).connect('\\0' + ABSTRACT)", host_network
    )
    yield Attempt("another process", "os._exit(0) if os.fork() == 0 else None", no_filter)
    yield Attempt("another program", "os.posix_spawn('/usr/bin/true', ['true'], {})", no_filter)
    yield Attempt("being traced", "call(101, 0, 0, 0, 0)", no_filter)
    yield Attempt("a new user namespace", "os.unshare(os.CLONE_NEWUSER)", both(no_filter, without("--disable-userns")))
    yield Attempt("memory in a descriptor", "os.memfd_create('x')", no_filter)
    yield Attempt("memory that outlives it", "call(29, 0, 4096, 0o1600)", no_filter)
    yield Attempt("the kernel's keys", "call(250, 0, -3, 1)", no_filter)
    yield Attempt("a ring of system calls", "call(425, 1, ctypes.create_string_buffer(256))", no_filter)
    yield Attempt("another personality", "call(135, 0x0040000)", no_filter)
    yield Attempt("faults handled by itself", "call(323, 1)", no_filter)
    yield Attempt(
        "another host name's host",
        "assert socket.gethostname() == os.uname().nodename != 'sandbox'",
        lambda argv: [part for part in argv if part not in ("--hostname", "sandbox")],
    )
    yield Attempt("the worker's environment", "os.environ['WORKER_SECRET']", without("--clearenv"))
    yield Attempt("more disk than it has", _FILL, private_folder(f"size={PRIVATE_BYTES}", "size=90%"))
    yield Attempt(
        "more files than it has",
        f"[open(f'f{{n}}', 'w').close() for n in range({PRIVATE_INODES + 1})]",
        private_folder(f"nr_inodes={PRIVATE_INODES}", "nr_inodes=0"),
    )
    yield Attempt("a session of its own", "os.setsid()", no_filter)
    yield Attempt("a process group of its own", "os.setpgid(0, 0)", no_filter)
    yield Attempt("a signal to its launcher's group", "os.kill(0, 0)", no_filter)
    yield Attempt("a larger file than any", "open('f', 'wb').truncate(200 << 20)", limit("fsize"))
    yield Attempt("more memory than it has", "bytearray(3 << 30)", limit("as"))
    yield Attempt("more descriptors than it has", "[os.dup(0) for _ in range(400)]", limit("nofile"))
    yield Attempt("more threads than it has", _THREADS, both(limit("nproc"), limit("as")))
    yield Attempt("a core file", "assert resource.getrlimit(resource.RLIMIT_CORE) != (1, 1)", limit("core"))
    yield Attempt("the host's handler of core files", "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))", no_filter)
    yield Attempt("the same by the other call", "resource.prlimit(0, resource.RLIMIT_CORE, (0, 0))", no_filter)
    yield Attempt("a handle of whoever made its socket", _PEER, no_filter)
    yield Attempt("a pair of sockets of another family", _PAIR, no_filter)
    yield Attempt(
        "the host's share of asynchronous requests", "call(206, 1, ctypes.byref(ctypes.c_ulong()))", no_filter
    )
    yield Attempt("the other table of system calls", _OTHER_TABLE, no_filter)
    yield Attempt("the kernel's settings", "open('/proc/sys/kernel/core_pattern', 'r+')", as_the_worker)


_PEER = "socket.socketpair()[0].getsockopt(socket.SOL_SOCKET, 77)"
# Of another family the kernel itself says something else than the filter.
_PAIR = "assert libc.socketpair(2, 1, 0, (ctypes.c_int * 2)()) == -1 and ctypes.get_errno() == errno.EOPNOTSUPP"
# `getpid` as a program of 32 bits asks for it: numbers there mean other calls.
_OTHER_TABLE = (
    "import mmap; place = mmap.mmap(-1, 4096, prot=7); place.write(bytes.fromhex('b814000000cd80c3')); "
    "assert ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(place)))() == os.getpid()"
)
_DEVICES = (
    "assert set(os.listdir('/dev')) - {'null', 'zero', 'full', 'random', 'urandom', 'tty', 'pts', 'ptmx', 'shm', "
    "'fd', 'stdin', 'stdout', 'stderr', 'core', 'console'}"
)
_FILL = f"[open(f'f{{n}}', 'wb').write(bytes(32 << 20)) for n in range({PRIVATE_BYTES // (32 << 20) + 1})]"
_THREADS = "[threading.Thread(target=time.sleep, args=(60,), daemon=True).start() for _ in range(200)]"


@dataclass(frozen=True)
class Host:
    """What there is to reach: a private file, a port, an abstract socket, a process."""

    folder: Path
    secret: Path
    port: int
    abstract: str

    def run(self, code: str, weaken: Weakening = lambda argv: argv) -> str:
        """What the attempt says inside."""
        program = PREAMBLE + f"    {code}\n" + END
        with made(self.folder) as sandbox, system_call_filter() as filter_file:
            arguments = [str(self.secret), str(self.port), self.abstract, str(os.getpid())]
            argv = [str(sandbox.python), "-I", "-B", "-c", program, *arguments]
            done = subprocess.run(
                weaken(sandbox.command(argv, seccomp=filter_file.fileno())), input=GO.decode(),
                pass_fds=[filter_file.fileno(), *sandbox.descriptors], capture_output=True, text=True,
                env={"PATH": os.environ["PATH"], "WORKER_SECRET": "x"}, timeout=120, check=False,
            )  # fmt: skip
        return done.stdout.strip() or f"exit {done.returncode}: {done.stderr.strip()[-300:]}"


@contextmanager
def made(folder: Path) -> Iterator[Sandbox]:
    (folder / "private").mkdir(exist_ok=True)
    with sandbox_user(UIDS) as user:
        yield Sandbox(PYTHON, folder / "private", 20, user)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    assert missing_programs() == []
    folder = tmp_path_factory.mktemp("host")
    folder.chmod(0o700)
    secret = folder / "journal.json"
    secret.write_text("private")
    secret.chmod(0o600)
    name = f"benchsite-test-{uuid.uuid4().hex}"
    with socket.create_server(("127.0.0.1", 0)) as port, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0{name}")
        abstract.listen(16)
        yield Host(folder, secret, port.getsockname()[1], name)


@pytest.mark.parametrize("attempt", list(attempts()), ids=lambda attempt: attempt.name)
def test_it_is_not_reached_and_would_be_without_its_defence(host: Host, attempt: Attempt) -> None:
    assert host.run(attempt.code) not in ("reached", "") and not host.run(attempt.code).startswith("exit 1: ")
    assert host.run(attempt.code, attempt.weaken) == "reached"


def test_it_is_nobody_else_for_the_kernel_and_in_no_group(host: Host) -> None:
    """What `id` says inside proves nothing: the file that it makes is looked at from outside."""
    shared = Path("/tmp") / f"benchsite-test-{uuid.uuid4().hex}"
    shared.mkdir(mode=0o777)
    shared.chmod(0o777)
    try:
        with made(host.folder) as sandbox, system_call_filter() as filter_file:
            program = ["/usr/bin/env", str(sandbox.python), "-I", "-c", f"open('{shared}/f', 'w')"]
            command = mounted_at(shared)(sandbox.command(program, seccomp=filter_file.fileno()))
            inherited = [filter_file.fileno(), *sandbox.descriptors]
            subprocess.run(command, pass_fds=inherited, check=True, timeout=120, input=GO)
            assert sandbox.user is not None
            own = sandbox.user.number
        made_there = (shared / "f").stat()
        assert (made_there.st_uid, made_there.st_gid) == (own, own)
    finally:
        shutil.rmtree(shared)


def test_it_has_no_descriptor_but_what_it_was_given(host: Host) -> None:
    said = host.run("print(sorted(os.listdir('/proc/self/fd'))); raise SystemExit")
    assert json.loads(said.splitlines()[0].replace("'", '"')) == ["0", "1", "2", "3"]  # 3: the listing itself


def test_it_has_no_capability_and_gains_none(host: Host) -> None:
    said = host.run("print(open('/proc/self/status').read()); raise SystemExit")
    found = dict(line.split(":\t", 1) for line in said.splitlines() if ":\t" in line)
    assert {found[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert (found["NoNewPrivs"], found["Seccomp"]) == ("1", "2")
