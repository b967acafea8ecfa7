"""Run as `python3 -I /opt/gateway`: a folder's own `__main__` is found even by an isolated interpreter."""

import sys

from model_gateway.serve import main  # type: ignore[import-not-found]

if __name__ == "__main__":
    sys.exit(main())
