"""HTTP connections: those that have not authenticated make room for new ones."""

import time
from asyncio import BaseTransport, Transport
from typing import cast

from uvicorn.protocols.http.h11_impl import H11Protocol

from pg_graphrag.beside.serve.guard import CALLER


class Connection(H11Protocol):
    """A connection of uvicorn's. Where there are as many as may be, the oldest one without a caller at work ends.

    So who opens connections and asks nothing, or does not read what anybody may have, keeps nobody out.
    """

    def connection_made(self, transport: BaseTransport) -> None:
        """Take a new connection."""
        super().connection_made(cast(Transport, transport))
        self._made_at = time.monotonic()
        others = [
            other
            for other in self.connections
            if isinstance(other, Connection) and other is not self and not other.transport.is_closing()
        ]
        if self.limit_concurrency is None or len(others) + 1 < self.limit_concurrency:
            return
        idle = [other for other in others if not other._is_at_work()]
        if idle:
            # Aborted at once: a client that does not read would hold unsent data.
            min(idle, key=lambda other: other._made_at).transport.abort()

    def _is_at_work(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete and CALLER in self.cycle.scope
