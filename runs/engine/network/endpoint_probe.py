"""What runs inside the endpoint probe's container: it asks the gateway one question and prints what came back.

Standard library of Python 3.11 only, run as ``python3 -I -S -c <this file>``; prints one JSON object. It holds the
token of no trial of a run, and never the endpoint's credential. Nothing imports it.
"""

import json
import os
import socket
import time

ERROR_BYTES = 4096


def ask(plan: "dict[str, object]") -> "tuple[int | None, bytes]":
    """The status and the beginning of the body of one exchange; None when the time was over before an answer."""
    host, port, seconds = str(plan["gateway"]), int(str(plan["port"])), float(str(plan["seconds"]))
    body = json.dumps(plan["question"]).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {plan['token']}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    deadline = time.monotonic() + seconds
    with socket.create_connection((host, port), seconds) as link:
        link.sendall(head.encode() + body)
        received = b""
        while len(received) < ERROR_BYTES:
            link.settimeout(max(0.01, deadline - time.monotonic()))
            part = link.recv(ERROR_BYTES)
            if not part:
                break
            received += part
    first, _, rest = received.partition(b"\r\n")
    fields = first.split()
    status = int(fields[1]) if len(fields) > 1 and fields[1].isdigit() else None
    return status, rest.partition(b"\r\n\r\n")[2]


def main() -> None:
    plan = json.loads(os.environ["PLAN"])
    started = time.monotonic()
    status: "int | None" = None
    body = b""
    problem = ""
    try:
        status, body = ask(plan)
    except OSError as error:
        problem = repr(error)
    error_text = body.decode("utf-8", "replace") if status is not None and status >= 400 else ""
    answer = {"status": status, "error": error_text, "problem": problem, "seconds": time.monotonic() - started}
    print(json.dumps(answer), flush=True)


main()
