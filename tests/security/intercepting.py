"""Between a client and a PostgreSQL server: passes everything on until a statement comes, then answers itself."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

# What is done in place of the server's answer, with the client's socket.
Answer = Callable[[socket.socket], None]


def message(kind: bytes, body: bytes) -> bytes:
    """A message of the server's."""
    return kind + struct.pack("!i", len(body) + 4) + body


def row(*values: bytes) -> bytes:
    """A DataRow."""
    fields = b"".join(struct.pack("!i", len(value)) + value for value in values)
    return message(b"D", struct.pack("!h", len(values)) + fields)


def columns(count: int) -> bytes:
    """ParseComplete, BindComplete and a RowDescription of columns of text."""
    fields = b"".join(f"c{n}".encode() + b"\0" + struct.pack("!ihihih", 0, 0, 25, -1, -1, 0) for n in range(count))
    return message(b"1", b"") + message(b"2", b"") + message(b"T", struct.pack("!h", count) + fields)


@contextmanager
def listening(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """Serve each connection in a thread of its own; yield the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    client = listener.accept()[0]
                    threading.Thread(target=guarded, args=[client], daemon=True).start()

        def guarded(client: socket.socket) -> None:
            with client, suppress(OSError):
                serve(client)

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield listener.getsockname()[1]
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)


@contextmanager
def between(port: int, answer: Answer) -> Iterator[int]:
    """Pass on what goes to and comes from the server at a port, and answer statements instead of it; yield a port."""

    def serve(client: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", port)) as server:

            def back() -> None:
                with suppress(OSError):
                    while data := server.recv(65536):
                        client.sendall(data)

            threading.Thread(target=back, daemon=True).start()
            # The password's exchange is over before the client sends a statement.
            while data := client.recv(65536):
                if data[:1] in (b"P", b"Q"):
                    answer(client)
                    return
                server.sendall(data)

    with listening(serve) as own:
        yield own


def greet(client: socket.socket) -> None:
    """Take a client's wish to begin, without TLS."""
    if len(client.recv(4096)) == 8:
        client.sendall(b"N")
        client.recv(4096)


def hang(client: socket.socket) -> None:
    """Never answer."""
    time.sleep(120)
