"""A local endpoint of models, compatible with OpenAI's API: replays recorded output, counts requests, misbehaves on demand.

In a test::

    with Endpoint() as endpoint:
        endpoint.reply(lambda messages: '{"entities": [], "relationships": []}')
        endpoint.misbehave("hang_mid_body", times=1)
        …  # set_provider(…, base_url => endpoint.url)
        assert endpoint.count("chat") == 2

As a process, for benchmarks: ``python -m tests.endpoint --record ../shared/data``.
"""

from tests.endpoint.recorded import Recorded
from tests.endpoint.server import Endpoint, Request

__all__ = ["Endpoint", "Recorded", "Request"]
