"""The endpoint as a process: prints its base URL, serves until its standard input ends or it is told to stop."""

import argparse
import contextlib
import sys
from pathlib import Path

from tests.endpoint import Endpoint, Recorded


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(prog="python -m tests.endpoint", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="where to listen (a free port)")
    parser.add_argument("--record", type=Path, help="folder of recorded output to replay (../shared/data)")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds every answer takes (0)")
    parser.add_argument("--dimensions", type=int, default=384, help="length of embeddings (384)")
    given = parser.parse_args()
    endpoint = Endpoint(port=given.port, latency=given.latency, dimensions=given.dimensions, keep=False)
    if given.record is not None:
        endpoint.reply(Recorded(given.record))
    with endpoint, contextlib.suppress(KeyboardInterrupt):
        print(endpoint.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
