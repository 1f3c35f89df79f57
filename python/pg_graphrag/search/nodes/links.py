"""Who reaches which node: the owner's foreign server with the node's name, and the caller's own user mapping for it.

Both are read with the caller's rights: PostgreSQL shows a mapping's password to its role while the role has USAGE on
the server.
"""

import importlib
import json
from dataclasses import dataclass
from functools import cache

from pg_graphrag.server import OWNER, Database, Row
from pg_graphrag.server.backend import loading
from pg_graphrag.server.corpus.corpora import ElsewhereError

# Options for the node and for the role; all others are left to postgres_fdw.
_OF_SERVER = frozenset(
    "host hostaddr port dbname sslmode sslnegotiation sslrootcert sslcrl sslcrldir sslsni ssl_min_protocol_version"
    " ssl_max_protocol_version channel_binding require_auth target_session_attrs load_balance_hosts keepalives"
    " keepalives_idle keepalives_interval keepalives_count tcp_user_timeout options".split()
)
# A password that the node asks for must be the caller's; a certificate or ticket would be that of the server's own
# user, and the node could use a plain-text password elsewhere.
_DEFAULTS = {
    # Else PGHOSTADDR of the server's own user would be asked in place of the host.
    "hostaddr": "",
    "require_auth": "scram-sha-256",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
    # What nobody waits for any more ends soon.
    "options": "-c client_connection_check_interval=500 -c idle_session_timeout=600000",
}
_ALWAYS = {
    "client_encoding": "UTF8",
    "application_name": "pg_graphrag",
    "gssencmode": "disable",
    "sslcertmode": "disable",
}

_LINKS = f"""
SELECT n.name AS node, pg_catalog.quote_ident(n.name) AS quoted_node, pg_catalog.quote_ident(current_user) AS quoted_role,
       s.oid IS NOT NULL AS has_server,
       pg_catalog.pg_has_role(s.srvowner, {OWNER}, 'USAGE') AS is_owners,
       pg_catalog.has_server_privilege(s.oid, 'USAGE') AS may_use, m.umid IS NOT NULL AS is_mapped,
       (SELECT pg_catalog.json_object_agg(o.option_name, o.option_value)::text
          FROM pg_catalog.pg_options_to_table(s.srvoptions) o) AS of_server,
       (SELECT pg_catalog.json_object_agg(o.option_name, o.option_value)::text
          FROM pg_catalog.pg_options_to_table(m.umoptions) o) AS of_role
  FROM pg_catalog.unnest($1) n (name)
  LEFT JOIN pg_catalog.pg_foreign_server s ON s.srvname = n.name
  LEFT JOIN pg_catalog.pg_user_mappings m ON m.srvid = s.oid AND m.umuser <> 0 AND m.usename = current_user
 ORDER BY n.name
"""
# A caller with EXECUTE on single functions may not read the nodes; one without a mapping reaches none of them.
_MAY_ASK = """
SELECT pg_catalog.has_table_privilege('graphrag.nodes', 'SELECT')
       AND EXISTS (SELECT FROM pg_catalog.pg_user_mappings m WHERE m.umuser <> 0 AND m.usename = current_user)
"""
_OTHERS = """
SELECT pg_catalog.array_agg(n.name) AS names
  FROM graphrag.nodes n
 WHERE n.name IS DISTINCT FROM pg_catalog.current_setting('graphrag.node', true)
"""


@dataclass(frozen=True, slots=True)
class Link:
    """How the caller connects to a node: settings of libpq, the password among them."""

    node: str
    settings: tuple[tuple[str, str], ...]

    def __repr__(self) -> str:
        return f"Link({self.node!r})"


@cache
def load_searches() -> None:
    """Import what asks a node, once, and a client's library with it; most sessions need neither."""
    with loading():
        importlib.import_module("pg_graphrag.search.nodes.searches")


def link_of(db: Database, elsewhere: ElsewhereError) -> Link:
    """Return how the caller reaches the node that holds a corpus.

    Raises ElsewhereError: the given one, with what is missing in its HINT.
    """
    (row,) = db.query(_LINKS, ["text[]"], [[elsewhere.node]])
    missing = _missing(row)
    if missing is not None:
        elsewhere.hint = f"{elsewhere.hint} That SQL asks it here, {missing}"
        raise elsewhere
    return _link(row)


def all_links(db: Database) -> list[Link]:
    """Return how the caller reaches the nodes that he can reach. As the caller."""
    names = db.value(_OTHERS) if db.value(_MAY_ASK) else None
    rows = db.query(_LINKS, ["text[]"], [names]) if names else []
    return [_link(row) for row in rows if _missing(row) is None]


def _missing(row: Row) -> str | None:
    """Return what must be done before the caller can reach a node; None if nothing."""
    server, role = row["quoted_node"], row["quoted_role"]
    if not row["has_server"]:
        return f"the owner of the extension can CREATE SERVER {server} FOREIGN DATA WRAPPER postgres_fdw OPTIONS (…)."
    if not row["is_owners"]:
        # Who owns it says where passwords go, and what answers.
        return f"its owner can ALTER SERVER {server} OWNER TO the owner of the extension, or to a role that has its rights."
    if not row["may_use"]:
        return f"its owner can GRANT USAGE ON FOREIGN SERVER {server} TO {role}."
    if not _options(row["of_server"]).keys() & {"host", "hostaddr"}:
        return f"its owner can ALTER SERVER {server} OPTIONS (ADD host '…')."
    if not row["is_mapped"]:
        return f"you can CREATE USER MAPPING FOR {role} SERVER {server} OPTIONS (user '…', password '…')."
    # In place of an empty one libpq takes the name, or the password file, of the server's own user.
    lacking = [name for name in ("user", "password") if not _options(row["of_role"]).get(name)]
    if lacking:
        return f"you can ALTER USER MAPPING FOR {role} SERVER {server}: it needs a {' and a '.join(lacking)} that is not empty."
    return None


def _link(row: Row) -> Link:
    server, role = _options(row["of_server"]), _options(row["of_role"])
    settings = _DEFAULTS | {name: value for name, value in server.items() if name in _OF_SERVER}
    settings |= {"user": role["user"], "password": role["password"]} | _ALWAYS
    return Link(row["node"], tuple(sorted(settings.items())))


def _options(text: str | None) -> dict[str, str]:
    return json.loads(text) if text else {}
