"""The sandbox of one trial's Harbor: a uid of its own, namespaces without a way out, a system call filter, limits.

What is mounted is made reachable first, in a mount namespace of the launcher's own: the sandbox's uid can enter
neither the worker's folders nor an interpreter below root's home. Nothing of the host is writable, nothing of the run
is mounted at all: what Harbor reads and what it leaves travel over the socket pair.

Everything of a sandbox is one process group, from the launcher's first step: bubblewrap begins no session, and the
filter lets nobody leave. So the launcher's recorded identity is enough to end all of it, and to see that it is gone.
"""

import errno
import os
import resource
import shutil
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from runs.attendant.uids import NoUid, OwnUid, own_uid

ADDRESS_SPACE_BYTES = 2 * 1024**3
PRIVATE_BYTES = 512 * 1024**2
# A file without content takes memory as well, of which a tmpfs counts nothing but this.
PRIVATE_INODES = 16 * 1024
FILE_BYTES = 128 * 1024**2
OPEN_FILES = 256
TASKS = 128
PROGRAMS = ("bwrap", "setpriv", "prlimit", "unshare", "mount")
# In a private mount namespace anything may be mounted over it.
_STAGE = "/mnt"
# The line on standard input comes once the launcher is recorded; without it whoever launched it is gone.
_SCRIPT = """
read -r go; exec </dev/null
mount -t tmpfs -o mode=0755,size=64k,nr_inodes=64 stage "$1"
mkdir "$1/private"; mount -t tmpfs -o "$2" private "$1/private"
stage=$1 count=$3; shift 3
while [ "$count" -gt 0 ]; do
  count=$((count - 1)); mkdir "$stage/$count"; mount --bind "$1" "$stage/$count"; shift
done
exec "$@"
"""
GO = b"\n"
_AF_UNIX = 1
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_SO_PEERPIDFD = 77
_CLONE_THREAD = 0x00010000
_PR_SET_PDEATHSIG = 1
# One process with threads: its address space is then all its memory, and nothing outlives it.
_NO_PROCESSES = ("fork", "vfork", "setsid", "setpgid")
_DENIED = (
    "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp",
    "mount", "umount2", "pivot_root", "chroot", "fsopen", "fsmount", "fsconfig", "fspick", "move_mount",
    "open_tree", "mount_setattr", "unshare", "setns",
    "bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register",
    "keyctl", "add_key", "request_key", "open_by_handle_at", "name_to_handle_at", "fanotify_init",
    "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot",
    # Counted for the whole host.
    "io_setup", "io_submit",
    "swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "settimeofday", "clock_settime",
    "clock_adjtime", "adjtimex", "iopl", "ioperm", "modify_ldt", "personality", "syslog", "vhangup",
    "lookup_dcookie", "mknod", "mknodat", "sethostname", "setdomainname",
    # Memory that no limit of the process counts.
    "memfd_create", "memfd_secret", "shmget", "shmat", "semget", "msgget", "mq_open",
)  # fmt: skip


class SandboxMissing(Exception):
    """This host cannot make the sandbox: `code`, `sentence` with the remedy, private `detail`."""

    def __init__(self, code: str, sentence: str, detail: str = "") -> None:
        super().__init__(sentence)
        self.code, self.sentence, self.detail = code, sentence, detail


@dataclass(frozen=True, slots=True)
class Sandbox:
    """``harness`` is the prepared environment's folder, ``home`` the private, writable folder inside.

    ``user`` is its own, where the worker may give it one; ``seconds`` of processor time end it.
    """

    harness: Path
    home: Path
    seconds: int
    user: OwnUid | None

    @property
    def python(self) -> Path:
        return self.harness / "bin" / "python"

    @property
    def descriptors(self) -> list[int]:
        """What the launcher must inherit beside the filter: its user's lock, kept by the sandbox's first process."""
        return [] if self.user is None else [self.user.lock]

    def command(self, program: Sequence[str], *, seccomp: int) -> list[str]:
        """The argument list that becomes `program` inside, after `GO` on its standard input.

        ``seccomp`` is the filter's descriptor.
        """
        sources = [source for source in (self.harness, interpreter_of(self.harness)) if not _is_system(source)]
        stages = [f"{_STAGE}/{number}" for number in reversed(range(len(sources)))]
        binds = [
            part for source, stage in zip(sources, stages, strict=True) for part in ("--ro-bind", stage, str(source))
        ]
        limits = {
            "core": 1, "nofile": OPEN_FILES, "fsize": FILE_BYTES, "as": ADDRESS_SPACE_BYTES, "nproc": TASKS,
            "cpu": self.seconds,
        }  # fmt: skip
        owner = 0 if self.user is None else self.user.number
        private = f"nosuid,nodev,mode=0700,uid={owner},gid={owner},size={PRIVATE_BYTES},nr_inodes={PRIVATE_INODES}"
        return [
            "unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--mount", "--propagation", "private", "--",
            "/bin/sh", "-euc", _SCRIPT, "stage",
            _STAGE, private, str(len(sources)), *map(str, sources),
            "prlimit", *(f"--{name}={value}:{value}" for name, value in limits.items()), "--",
            *self._another_user(),
            "bwrap", "--unshare-user", "--unshare-all", "--disable-userns", "--die-with-parent",
            "--clearenv", "--seccomp", str(seccomp), "--hostname", "sandbox",
            *(["--sync-fd", str(self.user.lock)] if self.user is not None else []),
            "--ro-bind", "/usr", "/usr", *_system_links(),
            "--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev",
            *binds,
            "--bind", f"{_STAGE}/private", str(self.home), "--remount-ro", "/", "--chdir", str(self.home),
            "--", *program,
        ]  # fmt: skip

    def _another_user(self) -> list[str]:
        """Only root can become somebody else; otherwise the user stays, which the preview asks to accept."""
        if self.user is None:
            return []
        # Bubblewrap dies with its parent too, but only from when it runs.
        dying = ["--pdeathsig", "KILL"]
        who = self.user.number
        return ["setpriv", f"--reuid={who}", f"--regid={who}", "--clear-groups", "--no-new-privs", *dying, "--"]


@contextmanager
def sandbox_user(uids: range) -> Iterator[OwnUid | None]:
    """A user id of its own for one sandbox; None for a worker that is not root. Raises SandboxMissing."""
    if os.geteuid() != 0:
        yield None
        return
    try:
        with own_uid(uids) as user:
            yield user
    except NoUid as error:
        raise SandboxMissing("sandbox.no_uid", str(error)) from error


def interpreter_of(harness: Path) -> Path:
    """The folder of the interpreter behind a virtual environment, as `pyvenv.cfg` names it."""
    for line in (harness / "pyvenv.cfg").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "home":
            return Path(value.strip()).parent
    raise SandboxMissing("sandbox.interpreter", "The harness environment names no interpreter. Run manage.py prepare.")


def _is_system(path: Path) -> bool:
    return path == Path("/usr") or path.is_relative_to("/usr")


def _system_links() -> Iterator[str]:
    """`/lib` and its like, as this host has them: links into `/usr`, or folders of their own."""
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        path = Path("/") / name
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        elif path.is_dir():
            yield from ("--ro-bind", str(path), str(path))


def missing_programs() -> list[str]:
    return [name for name in PROGRAMS if shutil.which(name) is None]


@contextmanager
def system_call_filter() -> Iterator[IO[bytes]]:
    """An open file with the compiled filter, for bubblewrap's `--seccomp`. Raises SandboxMissing."""
    try:
        import pyseccomp as seccomp
    except (ImportError, RuntimeError) as error:
        sentence = "The library libseccomp is missing on this worker. Install it (on Debian: libseccomp2)."
        raise SandboxMissing("sandbox.no_seccomp", sentence, str(error)) from error
    rules = seccomp.SyscallFilter(seccomp.ALLOW)
    refused = seccomp.ERRNO(errno.EPERM)
    for name in (*_NO_PROCESSES, *_DENIED):
        try:
            rules.add_rule(refused, name)
        except (OSError, ValueError, RuntimeError):
            continue  # this kernel's or library's table does not know it, so nothing can call it by that name
    rules.add_rule(refused, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, _CLONE_THREAD, 0))
    # Its flags stand in memory, where no filter looks; the C library then takes `clone`.
    rules.add_rule(seccomp.ERRNO(errno.ENOSYS), "clone3")
    for name in ("socket", "socketpair"):
        rules.add_rule(seccomp.ERRNO(errno.EAFNOSUPPORT), name, seccomp.Arg(0, seccomp.NE, _AF_UNIX))
    # A handle of the process at the other end, which is the attendant.
    rules.add_rule(refused, "getsockopt", seccomp.Arg(2, seccomp.MASKED_EQ, 0xFFFFFFFF, _SO_PEERPIDFD))
    # The limit of 1 keeps the kernel from starting the host's handler of core files, as root; any other does not.
    rules.add_rule(refused, "setrlimit", seccomp.Arg(0, seccomp.MASKED_EQ, 0xFFFFFFFF, resource.RLIMIT_CORE))
    rules.add_rule(
        refused,
        "prlimit64",
        seccomp.Arg(1, seccomp.MASKED_EQ, 0xFFFFFFFF, resource.RLIMIT_CORE),
        seccomp.Arg(2, seccomp.NE, 0),
    )
    # The sandbox's own init is of the same user, and could be made to forget with whom it dies.
    rules.add_rule(refused, "prctl", seccomp.Arg(0, seccomp.MASKED_EQ, 0xFFFFFFFF, _PR_SET_PDEATHSIG))
    # Its launcher is in its process group, and of its user: no signal to a group, or to all.
    rules.add_rule(refused, "kill", seccomp.Arg(0, seccomp.MASKED_EQ, 0xFFFFFFFF, 0))
    rules.add_rule(refused, "kill", seccomp.Arg(0, seccomp.MASKED_EQ, 0x80000000, 0x80000000))
    for request in (_TIOCSTI, _TIOCLINUX):
        rules.add_rule(refused, "ioctl", seccomp.Arg(1, seccomp.MASKED_EQ, 0xFFFFFFFF, request))
    with TemporaryFile() as file:
        rules.export_bpf(file)
        file.seek(0)
        yield file


def pair() -> tuple[socket.socket, socket.socket]:
    """The attendant's and the sandbox's end."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    os.set_inheritable(theirs.fileno(), True)
    return ours, theirs
