"""The transcript's way out of the container: a second process in it, started by the engine for whoever reads.

It hands its standard input to the gateway's socket and what comes back to its standard output, until either ends.
Imports little: it shares the gateway's memory limit.
"""

import os
import select
import socket
import sys
from collections.abc import Sequence

_CHUNK = 64 * 1024


def address_of(pid: int) -> str:
    """The abstract address of the gateway with this process id; in its container that is 1."""
    return f"\0benchsite-transcript-{pid}"


def main(arguments: Sequence[str]) -> int:
    """`arguments` are the first number that is wanted, and the gateway's process id if it is not 1.

    Exit status: 0 when either side ended, 1 when there is no gateway, 2 for other arguments.
    """
    if not 1 <= len(arguments) <= 2 or not all(word.isascii() and word.isdigit() for word in arguments):
        return 2
    pid = int(arguments[1]) if len(arguments) == 2 else 1
    with socket.socket(socket.AF_UNIX) as link:
        try:
            link.connect(address_of(pid))
            link.sendall(f"{int(arguments[0])}\n".encode("ascii"))
            _hand_on(link, sys.stdin.fileno(), sys.stdout.fileno())
        except OSError:
            return 1
    return 0


def _hand_on(link: socket.socket, source: int, target: int) -> None:
    while True:
        readable, _, _ = select.select([link, source], [], [])
        if source in readable:
            said = os.read(source, _CHUNK)
            if not said:
                return
            link.sendall(said)
        if link in readable:
            data = link.recv(_CHUNK)
            if not data:
                return
            view = memoryview(data)
            while view:
                view = view[os.write(target, view) :]
