"""Settings that a server is started with."""

from dataclasses import dataclass, field

RIGHTS = frozenset(("insert", "curate", "cypher"))


@dataclass(frozen=True)
class Limits:
    """Bounds for callers.

    `body`, `upload`: bytes of a request, and of one that uploads files.
    `rate`, `burst`: requests a second of a caller, on average, and at once.
    `calls`: requests of a caller at work at a time.
    `failures`: requests a minute with a wrong token or password, from an address.
    `seconds`, `ask_seconds`: time of a request, and of one that asks a model.
    `wait`: the part of it in which a connection must become free.
    """

    body: int = 1 << 20
    upload: int = 32 << 20
    rate: float = 50.0
    burst: int = 200
    calls: int = 8
    failures: int = 20
    seconds: float = 60.0
    ask_seconds: float = 300.0
    wait: float = 10.0


@dataclass(frozen=True)
class Settings:
    """What a server is started with.

    `url`: libpq URL of a role that may take on the callers' roles.
    `corpus`: corpus of requests that name none.
    `host`, `port`: where it listens.
    `origins`: addresses under which a reverse proxy shows it, such as ``https://rag.example.com``.
    `mcp_rights`: which of `RIGHTS` MCP offers tools for. A caller needs them too.
    `pictures`: whether the pictures of files that are uploaded are kept.
    `connections`, `waiting`: connections to the database, at most, and more of them for calls that wait for a model.
    `ocr`, `ocr_engine`: how text of scans and pictures in uploads is recognised, as `ReadOptions` says it.
    """

    url: str
    corpus: str = "default"
    host: str = "127.0.0.1"
    port: int = 8765
    origins: tuple[str, ...] = ()
    mcp_rights: frozenset[str] = frozenset()
    pictures: bool = False
    connections: int = 8
    waiting: int = 8
    ocr: str = "never"
    ocr_engine: str = "rapidocr"
    limits: Limits = field(default_factory=Limits)
