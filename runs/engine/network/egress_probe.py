"""What runs inside the egress probe's container: it tries to leave its network and prints what answered.

Standard library of Python 3.11 only, run as ``python3 -I -S -c <this file>``; prints one JSON object. All
attempts run at once and are bounded together. Nothing imports it.
"""

import errno
import json
import os
import pathlib
import select
import socket
import struct
import threading
import time
from typing import Any

QUERY_ID = 4660
NO_ERROR = 0


def default_gateways() -> list[str]:
    """The routing table's default gateways, as dotted addresses."""
    found = []
    for line in pathlib.Path("/proc/net/route").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1] == "00000000" and fields[2] != "00000000":
            found.append(socket.inet_ntoa(struct.pack("<I", int(fields[2], 16))))
    return found


def nameservers() -> list[str]:
    lines = pathlib.Path("/etc/resolv.conf").read_text().splitlines()
    return [line.split()[1] for line in lines if line.startswith("nameserver ")]


def connecting(address: str, port: int) -> tuple[socket.socket | None, int]:
    """A socket whose connect is under way, or None and the errno that ended it at once."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        place = socket.getaddrinfo(address, port, family, socket.SOCK_STREAM, 0, socket.AI_NUMERICHOST)[0][4]
        link = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        return None, error.errno or 0
    link.setblocking(False)
    code = link.connect_ex(place)
    return (link if code in (0, errno.EINPROGRESS) else None), code


def querying(server: str, name: str) -> tuple[socket.socket | None, int]:
    """A socket that has asked a nameserver for the A records of a name."""
    labels = b"".join(bytes([len(part)]) + part.encode("ascii") for part in name.split("."))
    query = struct.pack(">HHHHHH", QUERY_ID, 0x0100, 1, 0, 0, 0) + labels + b"\0\0\1\0\1"
    link = socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, socket.SOCK_DGRAM)
    link.setblocking(False)
    try:
        link.connect((server, 53))
        link.send(query)
    except OSError as error:
        return None, error.errno or 0
    return link, 0


def named(code: int) -> str:
    """The outcome of a connect: connected, refused (somebody answered), or what the network said."""
    if code == 0:
        return "connected"
    return "refused" if code == errno.ECONNREFUSED else errno.errorcode.get(code, str(code))


def dns_outcome(link: socket.socket) -> str:
    try:
        answer = link.recv(512)
    except OSError as error:
        return named(error.errno or 0)
    code, count = answer[3] & 15, struct.unpack(">H", answer[6:8])[0]
    return "resolved" if code == NO_ERROR and count else f"answered:{code}"


def ask_gateway(name: str, port: int, seconds: float, result: dict[str, str]) -> None:
    """Resolve and ask the gateway as an agent would; in a thread, since a lookup has no bound of its own."""
    try:
        result["address"] = str(socket.getaddrinfo(name, port, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])
        with socket.create_connection((result["address"], port), seconds) as link:
            link.settimeout(seconds)
            link.sendall(b"GET / HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n")
            result["answer"] = link.recv(512).decode("latin-1")
    except OSError as error:
        result["error"] = repr(error)


def settle(pending: dict[int, tuple[socket.socket, dict[str, Any]]], seconds: float) -> None:
    """Wait for all pending sockets together; what has not answered by then is silent."""
    poll = select.poll()
    for descriptor, (_, entry) in pending.items():
        poll.register(descriptor, select.POLLIN if entry["kind"] == "dns" else select.POLLOUT)
    deadline = time.monotonic() + seconds
    while pending and time.monotonic() < deadline:
        for descriptor, _ in poll.poll(max(1, (deadline - time.monotonic()) * 1000)):
            poll.unregister(descriptor)
            link, entry = pending.pop(descriptor)
            if entry["kind"] == "dns":
                entry["outcome"] = dns_outcome(link)
            else:
                entry["outcome"] = named(link.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))


def attempts(plan: dict[str, Any]) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = [{"kind": "tcp", **target} for target in plan["targets"]]
    for address in default_gateways():
        entries += [{"kind": "tcp", "name": "default_gateway", "address": address, "port": p} for p in plan["ports"]]
    entries += [
        {"kind": "dns", "name": "name_lookup", "address": server, "lookup": name}
        for server in nameservers()
        for name in plan["lookups"]
    ]
    return entries


def main() -> None:
    plan = json.loads(os.environ["PLAN"])
    seconds = plan["seconds"]
    gateway: dict[str, str] = {}
    asker = threading.Thread(
        target=ask_gateway,
        args=(plan["gateway"], plan["gateway_port"], plan["gateway_seconds"], gateway),
        daemon=True,
    )
    asker.start()
    pending: dict[int, tuple[socket.socket, dict[str, Any]]] = {}
    entries = attempts(plan)
    for entry in entries:
        if entry["kind"] == "dns":
            link, code = querying(entry["address"], entry["lookup"])
        else:
            link, code = connecting(entry["address"], entry["port"])
        entry["outcome"] = "silent" if link else named(code)
        if link:
            pending[link.fileno()] = (link, entry)
    settle(pending, seconds)
    asker.join(plan["gateway_seconds"])
    print(json.dumps({"attempts": entries, "gateway": gateway}), flush=True)
    os._exit(0)


main()
