"""Whether the server has ended a connection that waits for its next call: after a restart, a time-out, an administrator's end."""

import selectors
from typing import Any

import psycopg
from psycopg.pq import ConnStatus, TransactionStatus

# The server's last words come before the end: two reads, and one to spare.
_READS = 3


def is_lost(connection: "psycopg.Connection[Any] | psycopg.AsyncConnection[Any]") -> bool:
    """Whether an idle connection has ended. It sends nothing: a network that went silent shows with the next statement."""
    pgconn = connection.pgconn
    if connection.closed:
        return True
    if pgconn.transaction_status != TransactionStatus.IDLE:
        return False
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(pgconn.socket, selectors.EVENT_READ)
            for _ in range(_READS):
                if not selector.select(0):
                    return False
                pgconn.consume_input()
                pgconn.is_busy()  # takes in what was read
    except psycopg.OperationalError:
        return True
    return bool(pgconn.status == ConnStatus.BAD)
