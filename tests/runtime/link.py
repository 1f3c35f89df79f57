"""A link to a server that takes time, and counts the round trips over it."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from types import TracebackType
from urllib.parse import urlsplit

from psycopg.conninfo import conninfo_to_dict, make_conninfo


class Link:
    """Passes connections on to a server; what either end sends arrives `delay` seconds later.

    `round_trips` counts the answers that a client waited for: bytes of the server after bytes of the client.
    """

    def __init__(self, url: str, delay: float = 0.0) -> None:
        parts = conninfo_to_dict(url) if not url.startswith("postgres") else None
        split = urlsplit(url)
        self._server = (
            (str(parts["host"]), int(parts["port"])) if parts else (split.hostname or "127.0.0.1", split.port or 5432)
        )
        self._delay = delay
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.round_trips = 0
        self._ends: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()
        # No encryption: nothing but the statements' own messages goes back and forth.
        self.url = make_conninfo(
            url, host="127.0.0.1", port=self._listener.getsockname()[1], sslmode="disable", gssencmode="disable"
        )

    def __enter__(self) -> Link:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()

    def cut(self) -> None:
        """End every connection, at both ends."""
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                self._ends += (client, server)
                for end in (client, server):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                asked = threading.Event()
                threading.Thread(target=self._pass, args=(client, server, asked, True), daemon=True).start()
                threading.Thread(target=self._pass, args=(server, client, asked, False), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, asked: threading.Event, is_client: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 20):
                if is_client:
                    asked.set()
                elif asked.is_set():
                    asked.clear()
                    self.round_trips += 1
                if self._delay:
                    time.sleep(self._delay)
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
