"""Who calls, and as which database role: by a token, a password, or an identity that a reverse proxy or an OpenID
Connect provider vouches for.
"""

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
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from argon2 import PasswordHasher, extract_parameters
from argon2.exceptions import InvalidHashError, VerificationError

from pg_graphrag.beside.serve.settings import RIGHTS
from pg_graphrag.ground.errors import GraphRAGError

SESSION_SECONDS = 12 * 3600
MAX_SESSIONS = 10_000
_SETTING = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)+")
_HINT = "docs/serve.md describes the file."
_SECRETS = ("token_sha256", "password_argon2", "identity")


@dataclass(frozen=True)
class Caller:
    """A caller, and what represents him in the database.

    `name`: for logs and limits.
    `role`: the role that his calls run as; that of the server's URL when None.
    `settings` (tuple of (name, value)): settings of the session, which a condition of ``protect()`` may read.
    `rights`: insert, curate, cypher: what the server lets through. The database has the last word.
    """

    name: str
    role: str | None = None
    settings: tuple[tuple[str, str], ...] = ()
    rights: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Proxy:
    """A reverse proxy that authenticates callers.

    `header` has the caller's name. It counts only together with the proxy's secret in `secret_header`, from an address in
    `networks`.
    """

    header: str
    secret_header: str
    secret_hash: bytes
    networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]
    users: Mapping[str, Caller]

    def sent(self, address: str, headers: Mapping[str, str]) -> bool:
        """Whether a request from an address is the proxy's, by its headers (lower-case names)."""
        if not hmac.compare_digest(_hash(headers.get(self.secret_header, "")), self.secret_hash):
            return False
        try:
            peer = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(peer in network for network in self.networks)

    def caller(self, address: str, headers: Mapping[str, str]) -> Caller | None:
        """Return the caller, by the headers (lower-case names) of a request from an address."""
        return self.users.get(headers.get(self.header, "")) if self.sent(address, headers) else None


@dataclass(frozen=True)
class Provider:
    """An OpenID Connect provider, at which people sign in. `claim` of its ID token is the identity of a caller.

    `name` is what the button says.
    """

    name: str
    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    claim: str = "email"


@dataclass
class Session:
    """A browser that has signed in: its cookie identifies the caller; changes need `csrf` too."""

    caller: Caller
    csrf: str
    ends_at: float


@dataclass
class Callers:
    """All who may call."""

    by_hash: Mapping[bytes, Caller]
    proxy: Proxy | None = None
    by_password: Mapping[str, tuple[Caller, str]] = field(default_factory=dict)  # by name: and argon2's hash
    provider: Provider | None = None
    by_identity: Mapping[str, Caller] = field(default_factory=dict)
    _sessions: dict[bytes, Session] = field(default_factory=dict)

    @property
    def all(self) -> list[Caller]:
        """Everybody."""
        return [
            *self.by_hash.values(),
            *self.by_identity.values(),
            *(caller for caller, _ in self.by_password.values()),
        ]

    def by_token(self, token: str) -> Caller | None:
        """Return whose token it is. Hashes are looked up, so that the time tells nothing of a token."""
        return self.by_hash.get(_hash(token))

    def by_name(self, name: str, password: str) -> Caller | None:
        """Return the caller with this name and password. Takes the same time for an unknown name: some 50 ms, and 64 MB."""
        caller, stored = self.by_password.get(name) or (None, _nobodys())
        try:
            PasswordHasher().verify(stored, password)
        except VerificationError:
            return None
        return caller

    def begin_session(self, caller: Caller) -> tuple[str, Session]:
        """Return a new cookie's value and the session."""
        now = time.monotonic()
        if len(self._sessions) >= MAX_SESSIONS:
            self._sessions = {key: session for key, session in self._sessions.items() if session.ends_at > now}
            while len(self._sessions) >= MAX_SESSIONS:
                # A session of the caller with most of them: nobody signs others out by signing in.
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


@cache
def _nobodys() -> str:
    """The hash of a password that nobody has."""
    return password_hash(secrets.token_urlsafe(32))


def password_hash(password: str) -> str:
    """Return the hash of a password for the file of callers."""
    return PasswordHasher().hash(password)


def sole_caller(token: str) -> Callers:
    """Who has this token may what the role of the URL may."""
    return Callers({_hash(token): Caller("owner of the token", rights=RIGHTS)})


def read_callers(path: Path) -> Callers:
    """Read the file of callers.

    Raises GraphRAGError: 22023 for an invalid entry; the message contains no secret.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise GraphRAGError(f"{path} is not TOML: {error}", hint=_HINT) from None
    except OSError as error:
        raise GraphRAGError(f"{path} cannot be read: {error.strerror}", sqlstate="58P01") from None
    _only(content, {"callers", "proxy", "oidc"}, str(path))
    by_hash: dict[bytes, Caller] = {}
    by_identity: dict[str, Caller] = {}
    by_password: dict[str, tuple[Caller, str]] = {}
    entries = content.get("callers", [])
    if not isinstance(entries, list):
        raise GraphRAGError(f"{path}: callers is not an array of tables", hint=_HINT)
    for number, entry in enumerate(entries, 1):
        where = f"{path}, caller {number}"
        _only(entry, {"name", *_SECRETS, "role", "settings", "may"}, where)
        caller = _caller(entry, where)
        if sum(name in entry for name in _SECRETS) != 1:
            raise GraphRAGError(f"{where} has not one of {', '.join(_SECRETS)}", hint=_HINT)
        if "identity" in entry:
            _add(by_identity, str(entry["identity"]), caller, where)
        elif "password_argon2" in entry:
            if "name" not in entry or caller.name in by_password:
                raise GraphRAGError(f"{where} has a password and no name of its own", hint=_HINT)
            by_password[caller.name] = caller, _checked_password(entry["password_argon2"], where)
        else:
            _add(by_hash, _token_hash(entry["token_sha256"], where), caller, where)
    proxy = _proxy(content["proxy"], by_identity, str(path)) if "proxy" in content else None
    provider = _provider(content["oidc"], path) if "oidc" in content else None
    if by_identity and proxy is None and provider is None:
        raise GraphRAGError(f"{path} has identities, and neither proxy nor provider that vouches for them", hint=_HINT)
    if not by_hash and not by_identity and not by_password:
        raise GraphRAGError(f"{path} has no callers", hint=_HINT)
    return Callers(by_hash, proxy, by_password, provider, by_identity)


def token_hash(token: str) -> str:
    """Return the hash of a token for the file of callers."""
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


def _checked_password(value: Any, where: str) -> str:
    try:
        extract_parameters(value)
    except (InvalidHashError, AttributeError, TypeError):
        raise GraphRAGError(
            f"{where}: password_argon2 is no hash of argon2", hint="pg-graphrag serve --new-password makes one."
        ) from None
    return str(value)


def _provider(entry: Mapping[str, Any], path: Path) -> Provider:
    where = f"{path}, oidc"
    _only(entry, {"name", "issuer", "client_id", "client_secret_file", "claim"}, where)
    values = {name: str(entry.get(name, "")) for name in ("issuer", "client_id", "client_secret_file")}
    if missing := [name for name, value in values.items() if not value]:
        raise GraphRAGError(f"{where} has no {missing[0]}", hint=_HINT)
    issuer = urlsplit(values["issuer"])
    if issuer.scheme != "https" and issuer.hostname not in ("127.0.0.1", "localhost", "::1"):
        raise GraphRAGError(f"{where}: the issuer {values['issuer']!r} is not https", hint=_HINT)
    file = path.parent / values["client_secret_file"]
    try:
        secret = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise GraphRAGError(f"{where}: {file} cannot be read", sqlstate="58P01") from None
    return Provider(
        str(entry.get("name", issuer.hostname)),
        values["issuer"].rstrip("/"),
        values["client_id"],
        secret,
        str(entry.get("claim", "email")),
    )


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
