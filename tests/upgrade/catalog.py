"""Everything an extension owns in a database, in a form that two databases can be compared by: names, no oids."""

import psycopg

# {label}: (what tells the object, everything else about it). $members: pg_depend's rows of what the extension owns.
_PARTS = {
    "extension": """
        SELECT x.extname, jsonb_build_object('version', x.extversion, 'relocatable', x.extrelocatable, 'schema',
          x.extnamespace::regnamespace,
                 'comment', obj_description(x.oid, 'pg_extension'))
          FROM pg_extension x WHERE x.extname = 'pg_graphrag'""",
    "dumped": """
        SELECT r.oid::regclass::text, coalesce(r.condition, '')
          FROM pg_extension x, unnest(x.extconfig, x.extcondition) AS r (oid,
          condition) WHERE x.extname = 'pg_graphrag'""",
    "member": """
        SELECT pg_describe_object(m.classid, m.objid, 0), coalesce(i.initprivs, '')
          FROM members m
          LEFT JOIN (SELECT classoid, objoid, string_agg(objsubid || ':' || a.one::text, ' ' ORDER BY objsubid,
          a.one::text) AS initprivs
                       FROM pg_init_privs, unnest(initprivs) AS a (one) GROUP BY 1, 2) i ON (i.classoid,
                       i.objoid) = (m.classid, m.objid)""",
    "schema": """
        SELECT n.nspname, jsonb_build_object('acl', (SELECT array_agg(a::text ORDER BY a::text) FROM
          unnest(n.nspacl) a),
                 'comment', obj_description(n.oid, 'pg_namespace'))
          FROM pg_namespace n WHERE n.nspname = 'graphrag'""",
    "relation": """
        SELECT c.oid::regclass::text,
               jsonb_build_object('kind', c.relkind, 'persistence', c.relpersistence, 'options', c.reloptions,
               'method', m.amname,
                 'partitioned', pg_get_partkeydef(c.oid), 'identity', c.relreplident, 'rls', c.relrowsecurity,
                 'forced', c.relforcerowsecurity,
                 'owner', c.relowner = x.extowner, 'comment', obj_description(c.oid, 'pg_class'),
                 'acl', (SELECT array_agg(a::text ORDER BY a::text) FROM unnest(c.relacl) a),
                 'view', CASE WHEN c.relkind IN ('v', 'm') THEN pg_get_viewdef(c.oid) END,
                 'sequence', (SELECT jsonb_build_array(s.seqtypid::regtype, s.seqstart, s.seqincrement, s.seqmax,
                 s.seqmin, s.seqcache, s.seqcycle)
                                FROM pg_sequence s WHERE s.seqrelid = c.oid))
          FROM owned c JOIN pg_extension x ON x.extname = 'pg_graphrag' LEFT JOIN pg_am m ON m.oid = c.relam WHERE
          c.relkind <> 'i'""",
    # By name: a column that came later stands behind the others. pg_attver: a stamp of some builds of PostgreSQL.
    "column": """
        SELECT c.oid::regclass || '.' || a.attname,
               jsonb_build_object('type', format_type(a.atttypid, a.atttypmod), 'not null', a.attnotnull,
               'identity', a.attidentity,
                 'generated', a.attgenerated, 'default', pg_get_expr(d.adbin, d.adrelid), 'collation',
                 a.attcollation::regcollation,
                 'storage', a.attstorage, 'compression', a.attcompression, 'statistics', a.attstattarget,
                 'options', (SELECT array_agg(o ORDER BY o) FROM unnest(a.attoptions) o WHERE o !~ '^pg_attver='),
                 'acl', (SELECT array_agg(o::text ORDER BY o::text) FROM unnest(a.attacl) o), 'comment',
                 col_description(c.oid, a.attnum))
          FROM owned c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
          LEFT JOIN pg_attrdef d ON (d.adrelid, d.adnum) = (a.attrelid, a.attnum) WHERE c.relkind <> 'i'""",
    "constraint": """
        SELECT c.oid::regclass || ' ' || k.conname,
               jsonb_build_object('def', pg_get_constraintdef(k.oid), 'valid', k.convalidated, 'comment',
               obj_description(k.oid, 'pg_constraint'))
          FROM owned c JOIN pg_constraint k ON k.conrelid = c.oid""",
    "index": """
        SELECT i.indexrelid::regclass::text,
               jsonb_build_object('def', pg_get_indexdef(i.indexrelid), 'valid', i.indisvalid, 'cluster',
               i.indisclustered,
                 'identity', i.indisreplident, 'comment', obj_description(i.indexrelid, 'pg_class'))
          FROM owned c JOIN pg_index i ON i.indrelid = c.oid""",
    "trigger": """
        SELECT c.oid::regclass || ' ' || t.tgname,
               jsonb_build_object('def', pg_get_triggerdef(t.oid), 'enabled', t.tgenabled, 'comment',
               obj_description(t.oid, 'pg_trigger'))
          FROM owned c JOIN pg_trigger t ON t.tgrelid = c.oid WHERE NOT t.tgisinternal""",
    "policy": """
        SELECT c.oid::regclass || ' ' || p.polname,
               jsonb_build_object('command', p.polcmd, 'permissive', p.polpermissive, 'roles',
               p.polroles::regrole[],
                 'using', pg_get_expr(p.polqual, p.polrelid), 'check', pg_get_expr(p.polwithcheck, p.polrelid))
          FROM owned c JOIN pg_policy p ON p.polrelid = c.oid""",
    "routine": """
        SELECT p.oid::regprocedure::text,
               jsonb_build_object('def', pg_get_functiondef(p.oid), 'owner', p.proowner = x.extowner, 'comment',
               obj_description(p.oid, 'pg_proc'),
                 'acl', (SELECT array_agg(a::text ORDER BY a::text) FROM unnest(p.proacl) a))
          FROM members m JOIN pg_proc p ON p.oid = m.objid AND m.classid = 'pg_proc'::regclass
          JOIN pg_extension x ON x.extname = 'pg_graphrag' WHERE p.prokind IN ('f', 'p')""",
    "type": """
        SELECT format_type(t.oid, NULL), jsonb_build_object('kind', t.typtype, 'not null', t.typnotnull, 'default',
          t.typdefault,
                 'labels', (SELECT array_agg(e.enumlabel ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid
                 = t.oid),
                 'comment', obj_description(t.oid, 'pg_type'))
          FROM members m JOIN pg_type t ON t.oid = m.objid AND m.classid = 'pg_type'::regclass""",
}
_WITH = """
    WITH members AS (
        SELECT d.classid, d.objid FROM pg_depend d JOIN pg_extension x ON x.oid = d.refobjid
         WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND x.extname = 'pg_graphrag'
    ), owned AS (
        SELECT c.* FROM members m JOIN pg_class c ON c.oid = m.objid AND m.classid = 'pg_class'::regclass
    )"""


# The schemas of a database without the extension: what is in them is what the extension would own.
_WITH_PLAIN = """
    WITH x AS (
        SELECT c.relowner AS extowner, 'pg_graphrag'::name AS extname, 'graphrag'::regnamespace AS extnamespace, '' AS extversion,
               false AS extrelocatable, NULL::oid[] AS extconfig, NULL::text[] AS extcondition, 0::oid AS oid
          FROM pg_class c WHERE c.oid = 'graphrag._installed'::regclass
    ), pg_extension AS (SELECT * FROM x), spaces AS (
        SELECT n.oid FROM pg_namespace n WHERE n.nspname IN ('graphrag', 'graphrag_attached')
    ), members AS (
        SELECT 'pg_class'::regclass::oid AS classid, c.oid AS objid FROM pg_class c JOIN spaces s ON s.oid = c.relnamespace
         WHERE c.relkind IN ('r', 'p', 'v', 'S')
         UNION ALL
        SELECT 'pg_proc'::regclass, p.oid FROM pg_proc p JOIN spaces s ON s.oid = p.pronamespace
         UNION ALL
        SELECT 'pg_type'::regclass, t.oid FROM pg_type t JOIN spaces s ON s.oid = t.typnamespace WHERE t.typtype IN ('e', 'd')
    ), owned AS (
        SELECT c.* FROM members m JOIN pg_class c ON c.oid = m.objid AND m.classid = 'pg_class'::regclass
    )"""


def catalog(db: psycopg.Connection, *, is_plain: bool = False) -> dict[str, str]:
    """Return {kind and name: definition} of the extension, or of the schemas of a database without it, and of all they own."""
    objects: dict[str, str] = {}
    prefix = _WITH_PLAIN if is_plain else _WITH
    with db.transaction():
        # Every name comes out with its schema.
        db.execute("SET LOCAL search_path = pg_catalog")
        for kind, query in _PARTS.items():
            for name, definition in db.execute(f"{prefix} {query}".encode()):
                assert f"{kind} {name}" not in objects, f"{kind} {name} twice"
                objects[f"{kind} {name}"] = str(definition)
    return objects
