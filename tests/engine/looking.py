"""Everything that can be seen of a run from outside: engine, processes, files, database, queue."""

import json
import socket
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from runs.containers import connect
from runs.ownership import Journal, ResourceStage, Role
from tests.engine.site import GateSite
from tests.gateway.test_container import routes_to

CONTAINERS = ("agent", "verifier", "gateway")
GATEWAY_PORT = 8080
TMPFS = ("app", "logs", "root", "tests", "tmp", "dev/shm")
# What a container's own files say, those in memory and those of its processes.
READ_PROCESSES = "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null"
READ_FILES = f"tar -C / -cf - {' '.join(TMPFS)} etc 2>/dev/null"


@dataclass(frozen=True, repr=False)
class Live:
    """A run while its second agent waits for an answer."""

    spec: dict[str, Any]
    containers: dict[str, dict[str, Any]]
    networks: dict[str, dict[str, Any]]
    agent_files: bytes
    engine_logs: bytes
    processes: dict[int, bytes]
    stores: dict[str, bytes]
    gateway_reached: dict[str, bool]

    @property
    def agent(self) -> dict[str, Any]:
        return self.containers["agent"]

    @property
    def verifier(self) -> dict[str, Any]:
        return self.containers["verifier"]


@dataclass(frozen=True, repr=False)
class After:
    """The same run when it has ended."""

    journal: Any
    containers_left: list[str]
    networks_left: list[str]
    processes: dict[int, bytes]
    stores: dict[str, bytes]
    folder: Path


def started_roles(site: GateSite, run: str) -> set[str]:
    """The roles of those containers of a run that are started and not removed."""
    resources = Journal(site.run_folder(run)).read().resources
    return {one.intent.role.value for one in resources if one.stage is ResourceStage.STARTED}


def look_live(site: GateSite, run: str) -> Live:
    folder = site.run_folder(run)
    owned = [(r.intent.role, str(r.resource_id), r.stage) for r in Journal(folder).read().resources]
    ids = {role.value: one for role, one, stage in owned if role is not Role.NETWORK and stage is ResourceStage.STARTED}
    with closing(connect(30)) as api:
        return Live(
            spec=json.loads((folder / "spec.json").read_bytes()),
            containers={role: api.inspect_container(one) for role, one in ids.items()},
            networks={one: api.inspect_network(one) for role, one, _ in owned if role is Role.NETWORK},
            agent_files=_run_in(api, ids["agent"], f"{READ_PROCESSES}; {READ_FILES}"),
            engine_logs=b"".join(api.logs(one) for one in ids.values()),
            processes=dict(processes()),
            stores=dict(stores(site)),
            gateway_reached={
                one: reaches(one, GATEWAY_PORT) for one in _addresses(api.inspect_container(ids["gateway"]))
            },
        )


def reaches(address: str, port: int) -> bool:
    """Does this machine itself get a connection?"""
    try:
        socket.create_connection((address, port), 1.5).close()
    except OSError:
        return False
    return True


def _addresses(container: dict[str, Any]) -> list[str]:
    """Those to which this host has a route of its own: others would be looked for outside this machine."""
    legs = container["NetworkSettings"]["Networks"].values()
    return [str(leg["IPAddress"]) for leg in legs if routes_to(leg["IPAddress"])]


def _run_in(api: Any, container: str, line: str) -> bytes:
    output: bytes = api.exec_start(api.exec_create(container, ["sh", "-c", line])["Id"])
    return output


def look_after(site: GateSite, run: str) -> After:
    filters = {"label": [f"benchsite.run={run}"]}
    with closing(connect(30)) as api:
        return After(
            journal=Journal(site.run_folder(run)).read(),
            containers_left=[one["Id"] for one in api.containers(all=True, filters=filters)],
            networks_left=[one["Id"] for one in api.networks(filters=filters)],
            processes=dict(processes()),
            stores=dict(stores(site)),
            folder=site.run_folder(run),
        )


def processes() -> Iterator[tuple[int, bytes]]:
    """Arguments and environment of every process on this machine, those in containers included."""
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            yield int(place.name), (place / "cmdline").read_bytes() + b"\0" + (place / "environ").read_bytes()


def stores(site: GateSite) -> Iterator[tuple[str, bytes]]:
    """Every byte that the site keeps: files, all tables, all keys of its queue."""
    for path in site.data.rglob("*"):
        with suppress(FileNotFoundError):
            if path.is_file() and not path.is_symlink():
                yield str(path.relative_to(site.data)), path.read_bytes()
    yield "all tables", b"\n".join(_rows(site.data / "benchsite.sqlite3"))
    yield "all keys", b"\n".join(_keys(site.data / "redis" / "redis.sock"))


def _rows(path: Path) -> Iterator[bytes]:
    with closing(sqlite3.connect(path, timeout=20)) as database:
        tables = [name for (name,) in database.execute("select name from sqlite_master where type = 'table'")]
        for table in tables:
            for row in database.execute(f'select * from "{table}"'):
                for value in row:
                    yield from _value(value if isinstance(value, bytes) else str(value).encode())


def _keys(socket: Path) -> Iterator[bytes]:
    with redis.Redis(unix_socket_path=str(socket)) as client:
        for key in client.scan_iter():
            yield key
            match client.type(key):
                case b"hash":
                    found = [part for pair in client.hgetall(key).items() for part in pair]
                case b"list":
                    found = client.lrange(key, 0, -1)
                case b"set":
                    found = list(client.smembers(key))
                case b"zset":
                    found = client.zrange(key, 0, -1)
                case b"stream":
                    found = [str(client.xrange(key)).encode()]
                case _:
                    found = [client.get(key) or b""]
            for value in found:
                yield from _value(value)


def _value(value: bytes) -> Iterator[bytes]:
    """A value, and what it unpacks to: RQ keeps a job's arguments compressed."""
    yield value
    with suppress(zlib.error):
        yield zlib.decompress(value)
