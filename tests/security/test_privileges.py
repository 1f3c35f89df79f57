"""Every object's privileges, as privileges.txt has them. After a change that is meant, write it anew and read the difference:

WRITE_PRIVILEGES=1 ./test tests/security/test_privileges.py
"""

import os
from pathlib import Path

from tests.runtime.cluster import Database
from tests.sql.ingest import rows

GOLDEN = Path(__file__).with_name("privileges.txt")
DEFINERS = Path(__file__).parents[1] / "security_definer.txt"

_ACL = """(SELECT coalesce(string_agg(g.line, '; ' ORDER BY g.line), 'owner alone')
   FROM (SELECT coalesce(r.rolname, 'PUBLIC') || ': ' || string_agg(
                    a.privilege_type || CASE WHEN a.is_grantable THEN '*' ELSE '' END, ', ' ORDER BY a.privilege_type) AS line
           FROM aclexplode({acl}) a LEFT JOIN pg_roles r ON r.oid = a.grantee
          WHERE a.grantee <> {owner} GROUP BY r.rolname) g)"""
# What tells the object, how it runs, who may do what. Nothing said of privileges stands for what PostgreSQL has by default.
_QUERIES = (
    f"""SELECT 'schema ' || nspname, '', {_ACL.format(acl="coalesce(nspacl, acldefault('n', nspowner))", owner="nspowner")}
          FROM pg_namespace WHERE nspname IN ('graphrag', 'graphrag_attached')""",
    f"""SELECT CASE relkind WHEN 'v' THEN 'view ' WHEN 'S' THEN 'sequence ' ELSE 'table ' END || c.oid::regclass,
               concat_ws(' ', CASE WHEN relkind = 'v' AND 'security_invoker=true' = ANY (reloptions) THEN 'invoker''s rights'
                                   WHEN relkind = 'v' THEN 'owner''s rights' END,
                         CASE WHEN 'security_barrier=true' = ANY (reloptions) THEN 'barrier' END,
                         CASE WHEN relrowsecurity THEN 'row-level security' END),
               {_ACL.format(acl="relacl", owner="relowner")}
          FROM pg_class c WHERE relnamespace::regnamespace::text IN ('graphrag', 'graphrag_attached')
           AND relkind IN ('r', 'p', 'v', 'm', 'S', 'f')""",
    f"""SELECT 'column ' || c.oid::regclass || '.' || a.attname, '', {_ACL.format(acl="a.attacl", owner="c.relowner")}
          FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
         WHERE relnamespace::regnamespace::text IN ('graphrag', 'graphrag_attached') AND a.attacl IS NOT NULL""",
    f"""SELECT 'type ' || format_type(t.oid, NULL), '', {_ACL.format(acl="t.typacl", owner="t.typowner")}
          FROM pg_type t WHERE typnamespace::regnamespace::text IN ('graphrag', 'graphrag_attached') AND typacl IS NOT NULL""",
    f"""SELECT CASE prokind WHEN 'p' THEN 'procedure ' ELSE 'function ' END || p.oid::regprocedure,
               CASE provolatile WHEN 'i' THEN 'immutable' WHEN 's' THEN 'stable' ELSE 'volatile' END
               || CASE WHEN prosecdef THEN ' SECURITY DEFINER' ELSE '' END,
               {_ACL.format(acl="coalesce(proacl, acldefault('f', proowner))", owner="proowner")}
          FROM pg_proc p WHERE pronamespace::regnamespace::text IN ('graphrag', 'graphrag_attached')""",
)


def described(db: Database) -> list[str]:
    """A line for each object: what it is, how it runs, who has what."""
    reasons = dict(line.split("  ", 1) for line in DEFINERS.read_text().splitlines() if "  " in line)
    lines = []
    with db.transaction():
        db.execute("SET LOCAL search_path = pg_catalog")
        for query in _QUERIES:
            for name, runs, privileges in rows(db, query):
                line = f"{name} | {runs} | {privileges}" if runs else f"{name} | {privileges}"
                if "SECURITY DEFINER" in runs:
                    line = line.replace(
                        "SECURITY DEFINER", f"SECURITY DEFINER ({reasons[name.split()[1].split('(')[0]]})"
                    )
                lines.append(line)
    return sorted(lines)


def test_every_object_has_the_privileges_that_are_written_down(db: Database) -> None:
    now = described(db)
    if os.environ.get("WRITE_PRIVILEGES"):
        GOLDEN.write_text("\n".join(now) + "\n")
    written = GOLDEN.read_text().splitlines()
    assert [line for line in now if line not in written] == [], "now, not written"
    assert [line for line in written if line not in now] == [], "written, not now"


def test_every_security_definer_pins_a_path_that_begins_with_the_system_and_ends_with_what_is_temporary(
    db: Database,
) -> None:
    definers = rows(
        db,
        "SELECT p.oid::regprocedure::text, s.setting FROM pg_proc p"
        " LEFT JOIN LATERAL (SELECT substr(u.one, 13) AS setting FROM unnest(p.proconfig) u (one)"
        " WHERE u.one ^@ 'search_path=') s ON true"
        " WHERE p.pronamespace::regnamespace::text IN ('graphrag', 'graphrag_attached') AND p.prosecdef",
    )
    assert definers
    for name, path in definers:
        schemas = [part.strip() for part in (path or "").split(",")]
        assert schemas[0] == "pg_catalog" and schemas[-1] == "pg_temp", (name, path)
        assert len(schemas) == 2 or schemas[1:-1] == ["ag_catalog"], (name, path)
