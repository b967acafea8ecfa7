"""Run as `python3 -I /opt/gateway`: a folder's own `__main__` is found even by an isolated interpreter.

With `--transcript NUMBER` it is no gateway but hands on the transcript of the one that runs (`model_gateway/relay.py`).
"""

import sys

if __name__ == "__main__":
    if sys.argv[1:2] == ["--transcript"]:
        from model_gateway.relay import main as relay  # type: ignore[import-not-found]

        sys.exit(relay(sys.argv[2:]))
    from model_gateway.serve import main  # type: ignore[import-not-found]

    sys.exit(main())
