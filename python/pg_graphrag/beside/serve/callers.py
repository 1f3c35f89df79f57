"""Who calls: a token or the identity that a reverse proxy vouches for, and the database role that stands for it."""

import hashlib
import hmac
import ipaddress
import re
import secrets
import time
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pg_graphrag.beside.serve.settings import RIGHTS
from pg_graphrag.ground.errors import GraphRAGError

SESSION_SECONDS = 12 * 3600
MAX_SESSIONS = 10_000
_SETTING = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)+")
_HINT = "docs/serve.md describes the file."


@dataclass(frozen=True)
class Caller:
    """Somebody, and what stands for him in the database.

    Parameters
    ----------
    name : str
        For logs and limits.
    role : str, optional
        The role that his calls run as; that of the server's URL when None.
    settings : tuple of (name, value)
        Settings of the session, which a condition of ``protect()`` may read.
    rights : frozenset of str
        insert, curate, cypher: what the server lets through. The database has the last word.
    """

    name: str
    role: str | None = None
    settings: tuple[tuple[str, str], ...] = ()
    rights: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Proxy:
    """A reverse proxy that says who calls.

    `header` has the name, and counts only beside `secret_header` with the proxy's secret, and from an address in `networks`.
    """

    header: str
    secret_header: str
    secret_hash: bytes
    networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]
    users: Mapping[str, Caller]

    def caller(self, address: str, headers: Mapping[str, str]) -> Caller | None:
        """Return who calls, by the headers (lower-case names) of a request from an address."""
        if not hmac.compare_digest(_hash(headers.get(self.secret_header, "")), self.secret_hash):
            return None
        try:
            peer = ipaddress.ip_address(address)
        except ValueError:
            return None
        if not any(peer in network for network in self.networks):
            return None
        return self.users.get(headers.get(self.header, ""))


@dataclass
class Session:
    """A browser that has shown a token: its cookie stands for the caller, with `csrf` beside it where something changes."""

    caller: Caller
    csrf: str
    ends_at: float


@dataclass
class Callers:
    """All who may call."""

    by_hash: Mapping[bytes, Caller]
    proxy: Proxy | None = None
    _sessions: dict[bytes, Session] = field(default_factory=dict)

    @property
    def all(self) -> list[Caller]:
        """Everybody."""
        return [*self.by_hash.values(), *(self.proxy.users.values() if self.proxy else ())]

    def by_token(self, token: str) -> Caller | None:
        """Return whose token it is. Hashes are looked up, so that the time tells nothing of a token."""
        return self.by_hash.get(_hash(token))

    def begin_session(self, caller: Caller) -> tuple[str, Session]:
        """Return a new cookie's value and the session."""
        now = time.monotonic()
        if len(self._sessions) >= MAX_SESSIONS:
            self._sessions = {key: session for key, session in self._sessions.items() if session.ends_at > now}
            while len(self._sessions) >= MAX_SESSIONS:
                # Of who has most: nobody signs others out by signing in.
                greedy, _ = Counter(session.caller for session in self._sessions.values()).most_common(1)[0]
                del self._sessions[next(key for key, session in self._sessions.items() if session.caller == greedy)]
        cookie = secrets.token_urlsafe(32)
        session = Session(caller, secrets.token_urlsafe(32), now + SESSION_SECONDS)
        self._sessions[_hash(cookie)] = session
        return cookie, session

    def session(self, cookie: str) -> Session | None:
        """Return the session of a cookie that has not ended."""
        session = self._sessions.get(_hash(cookie))
        return session if session is not None and session.ends_at > time.monotonic() else None

    def end_session(self, cookie: str) -> None:
        """Forget a cookie."""
        self._sessions.pop(_hash(cookie), None)


def sole_caller(token: str) -> Callers:
    """Who has this token may what the role of the URL may."""
    return Callers({_hash(token): Caller("owner of the token", rights=RIGHTS)})


def read_callers(path: Path) -> Callers:
    """Read the file of callers.

    Raises
    ------
    GraphRAGError
        22023 for what it may not say; no secret is in the message.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise GraphRAGError(f"{path} is not TOML: {error}", hint=_HINT) from None
    except OSError as error:
        raise GraphRAGError(f"{path} cannot be read: {error.strerror}", sqlstate="58P01") from None
    _only(content, {"callers", "proxy"}, str(path))
    by_hash: dict[bytes, Caller] = {}
    by_identity: dict[str, Caller] = {}
    entries = content.get("callers", [])
    if not isinstance(entries, list):
        raise GraphRAGError(f"{path}: callers is not an array of tables", hint=_HINT)
    for number, entry in enumerate(entries, 1):
        where = f"{path}, caller {number}"
        _only(entry, {"name", "token_sha256", "identity", "role", "settings", "may"}, where)
        caller = _caller(entry, where)
        if ("token_sha256" in entry) == ("identity" in entry):
            raise GraphRAGError(f"{where} has not one of token_sha256 and identity", hint=_HINT)
        if "identity" in entry:
            _add(by_identity, str(entry["identity"]), caller, where)
        else:
            _add(by_hash, _token_hash(entry["token_sha256"], where), caller, where)
    proxy = _proxy(content["proxy"], by_identity, str(path)) if "proxy" in content else None
    if by_identity and proxy is None:
        raise GraphRAGError(f"{path} has identities, and no proxy that vouches for them", hint=_HINT)
    if not by_hash and not by_identity:
        raise GraphRAGError(f"{path} has no callers", hint=_HINT)
    return Callers(by_hash, proxy)


def token_hash(token: str) -> str:
    """Return what stands for a token in the file of callers."""
    return _hash(token).hex()


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def _add(callers: dict[Any, Caller], key: Any, caller: Caller, where: str) -> None:
    if key in callers:
        raise GraphRAGError(f"{where} has the token or identity of {callers[key].name!r}", hint=_HINT)
    callers[key] = caller


def _caller(entry: Mapping[str, Any], where: str) -> Caller:
    settings = entry.get("settings", {})
    for name in settings:
        # Settings of PostgreSQL itself and of the package are no claims.
        if not _SETTING.fullmatch(name) or name.lower().startswith(("graphrag.", "plpython3.", "hnsw.", "ivfflat.")):
            raise GraphRAGError(
                f"{where} may not have the setting {name!r}", hint="Name one of yours, such as app.tenant."
            )
    rights = frozenset(entry.get("may", ()))
    if not rights <= RIGHTS:
        raise GraphRAGError(
            f"{where} may have no right {min(rights - RIGHTS)!r}", hint=f"Rights: {', '.join(sorted(RIGHTS))}."
        )
    if not isinstance(entry.get("role"), str) or not entry["role"]:
        raise GraphRAGError(f"{where} has no role", hint=_HINT)
    claims = tuple((name, str(value)) for name, value in settings.items())
    return Caller(str(entry.get("name", entry.get("identity", entry["role"]))), entry["role"], claims, rights)


def _token_hash(value: Any, where: str) -> bytes:
    if not isinstance(value, str) or not re.fullmatch(r"[0-9a-fA-F]{64}", value):
        raise GraphRAGError(
            f"{where}: token_sha256 is not 64 hexadecimal digits", hint="pg-graphrag serve --new-token makes both."
        )
    return bytes.fromhex(value)


def _proxy(entry: Mapping[str, Any], users: Mapping[str, Caller], path: str) -> Proxy:
    where = f"{path}, proxy"
    _only(entry, {"header", "secret_header", "secret_sha256", "networks"}, where)
    try:
        networks = tuple(
            ipaddress.ip_network(network) for network in entry.get("networks", ("127.0.0.1/32", "::1/128"))
        )
    except ValueError as error:
        raise GraphRAGError(f"{where}: {error}", hint=_HINT) from None
    return Proxy(
        str(entry.get("header", "X-Forwarded-User")).lower(),
        str(entry.get("secret_header", "X-Proxy-Secret")).lower(),
        _token_hash(entry.get("secret_sha256"), where),
        networks,
        users,
    )


def _only(entry: Any, names: set[str], where: str) -> None:
    if not isinstance(entry, dict):
        raise GraphRAGError(f"{where} is not a table", hint=_HINT)
    if unknown := sorted(set(entry) - names):
        raise GraphRAGError(f"{where} has no {unknown[0]!r}", hint=f"It may have {', '.join(sorted(names))}.")
