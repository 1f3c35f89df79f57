-- The history of a corpus is a corpus of its own, whose documents are the versions of the other's: what a document said, and from when to
-- when. So modes, as_of, filters, dumps and rights are those of any corpus, and the other corpus is as it would be without.
CREATE TABLE graphrag._histories (
    corpus_id  int NOT NULL,
    history_id int NOT NULL,
    CONSTRAINT _histories_pkey PRIMARY KEY (corpus_id),
    CONSTRAINT _histories_history_id_key UNIQUE (history_id),
    CONSTRAINT _histories_corpus_fkey FOREIGN KEY (corpus_id) REFERENCES graphrag.corpora (id) ON DELETE CASCADE,
    CONSTRAINT _histories_history_fkey FOREIGN KEY (history_id) REFERENCES graphrag.corpora (id) ON DELETE CASCADE
);
SELECT pg_catalog.pg_extension_config_dump('graphrag._histories', '');
COMMENT ON TABLE graphrag._histories IS 'Corpora whose versions are kept, and where';
COMMENT ON COLUMN graphrag._histories.corpus_id IS 'The corpus';
COMMENT ON COLUMN graphrag._histories.history_id IS 'The corpus of its versions';

ALTER TABLE graphrag.documents ADD COLUMN version_of bigint;
CREATE UNIQUE INDEX documents_version_of_key ON graphrag.documents (version_of) WHERE version_of IS NOT NULL;
COMMENT ON COLUMN graphrag.documents.version_of IS 'In a history: number of the document whose latest version this is; null: a version that was replaced, or no version';

-- The key of a version. The mark has a fixed length, so no two keys have the same: whatever a key of the application looks like.
CREATE FUNCTION graphrag._version_stem(source_key text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
RETURN CASE WHEN octet_length(source_key) <= 1970 THEN source_key ELSE encode(sha256(convert_to(source_key, 'UTF8')), 'hex') END;
COMMENT ON FUNCTION graphrag._version_stem(text) IS 'Common beginning of the keys of all versions of a document; 28 characters follow';
CREATE FUNCTION graphrag._version_key(source_key text, moment timestamptz) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
RETURN graphrag._version_stem(source_key) || to_char(moment AT TIME ZONE 'UTC', '"@"YYYY-MM-DD"T"HH24:MI:SS.US"Z"');
COMMENT ON FUNCTION graphrag._version_key(text, timestamptz) IS 'Key of the version of a document that was written at a time';

-- Writes what documents say now as their latest versions, valid from these moments. On conflict: the document was deleted and inserted
-- again in one transaction, or took another's key, so that its version was never to be seen.
CREATE FUNCTION graphrag._begin_versions(document_ids bigint[], beginnings timestamptz[]) RETURNS void
LANGUAGE sql VOLATILE SET enable_nestloop = on
BEGIN ATOMIC
    INSERT INTO graphrag.documents AS v (corpus, source_key, title, content, metadata, valid_from, valid_to, version_of)
    SELECT c.name, graphrag._version_key(d.source_key, pg_catalog.now()), d.title, d.content, d.metadata, CASE WHEN u.beginning IS NOT NULL THEN least(u.beginning, d.valid_to) END, least(d.valid_to, d.retracted_at), d.id
      FROM ROWS FROM (pg_catalog.unnest(document_ids), pg_catalog.unnest(beginnings)) AS u (id, beginning)
      JOIN graphrag.documents d ON d.id = u.id
      JOIN graphrag._histories h ON h.corpus_id = d.corpus_id
      JOIN graphrag.corpora c ON c.id = h.history_id
     ORDER BY d.id
        ON CONFLICT (corpus, source_key) DO UPDATE
       SET title = EXCLUDED.title, content = EXCLUDED.content, metadata = EXCLUDED.metadata, valid_from = EXCLUDED.valid_from,
           valid_to = EXCLUDED.valid_to, version_of = EXCLUDED.version_of;
    SELECT graphrag._copy_pictures(document_ids);
END;

-- Brings versions to documents that were changed or deleted. says_other: what it says, or that it is said again after a retraction, is
-- new; begins_elsewhere: it has another valid_from.
CREATE FUNCTION graphrag._change_versions(document_ids bigint[], says_other boolean[], begins_elsewhere boolean[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_nestloop = on
AS $$
DECLARE
    next_ids   bigint[];
    beginnings timestamptz[];
BEGIN
    UPDATE graphrag.documents v
       SET valid_to = greatest(least(v.valid_to, now()), v.valid_from), version_of = NULL
     WHERE v.version_of = ANY (document_ids) AND NOT EXISTS (SELECT FROM graphrag.documents d WHERE d.id = v.version_of);
    UPDATE graphrag.documents v
       SET valid_to = greatest(least(d.valid_to, d.retracted_at), v.valid_from)
      FROM graphrag.documents d
     WHERE v.version_of = ANY (document_ids) AND d.id = v.version_of AND d.retracted_at IS NOT NULL;
    -- The version stays where the document says the same, and where this transaction wrote it: nobody else has seen it.
    UPDATE graphrag.documents v
       SET title = d.title, content = d.content, metadata = d.metadata, valid_to = d.valid_to,
           valid_from = CASE WHEN u.begins_elsewhere AND d.valid_from IS NOT NULL THEN d.valid_from
                             WHEN v.valid_from IS NOT NULL THEN least(v.valid_from, d.valid_to) END
      FROM unnest(document_ids, says_other, begins_elsewhere) AS u (id, says_other, begins_elsewhere)
      JOIN graphrag.documents d ON d.id = u.id
     WHERE v.version_of = u.id AND d.retracted_at IS NULL
       AND (NOT u.says_other OR v.source_key = graphrag._version_key(d.source_key, now()));
    -- Else one version ends where the next begins: when it is written, or from when its document says. The clock of a transaction may
    -- be behind that of one which committed before.
    SELECT array_agg(d.id), array_agg(CASE WHEN u.begins_elsewhere AND d.valid_from IS NOT NULL THEN d.valid_from
                                           ELSE greatest(now(), v.valid_from) END)
      INTO next_ids, beginnings
      FROM unnest(document_ids, says_other, begins_elsewhere) AS u (id, says_other, begins_elsewhere)
      JOIN graphrag.documents d ON d.id = u.id
      LEFT JOIN graphrag.documents v ON v.version_of = d.id
     WHERE u.says_other AND d.retracted_at IS NULL AND v.source_key IS DISTINCT FROM graphrag._version_key(d.source_key, now());
    UPDATE graphrag.documents v
       SET valid_to = greatest(least(v.valid_to, u.beginning), v.valid_from), version_of = NULL
      FROM unnest(next_ids, beginnings) AS u (id, beginning)
     WHERE v.version_of = u.id;
    IF next_ids IS NOT NULL THEN
        PERFORM graphrag._begin_versions(next_ids, beginnings);
    END IF;
END
$$;
COMMENT ON FUNCTION graphrag._change_versions(bigint[], boolean[], boolean[]) IS 'Ends versions of changed or deleted documents, and begins the next';

-- SECURITY DEFINER: who writes a document may not write the history. No nested loops, as in _documents_updated().
CREATE FUNCTION graphrag._keep_versions() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_nestloop = off
AS $$
DECLARE
    changed record;
BEGIN
    IF NOT EXISTS (SELECT FROM graphrag._histories) THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'INSERT' THEN
        -- What says when it is valid is valid then, all else from when it was written. A row of a restore is older than its
        -- transaction, and its versions come with it.
        SELECT array_agg(i.id) AS ids, array_agg(CASE WHEN i.valid_to IS NULL THEN coalesce(i.valid_from, now()) ELSE i.valid_from END) AS beginnings
          INTO changed
          FROM inserted i
          JOIN graphrag._histories h ON h.corpus_id = i.corpus_id
         -- What comes retracted was valid until then, if it says from when.
         WHERE (i.retracted_at IS NULL OR i.valid_from < i.retracted_at) AND i.created_at = now();
        IF changed.ids IS NOT NULL THEN
            PERFORM graphrag._begin_versions(changed.ids, changed.beginnings);
        END IF;
        RETURN NULL;
    ELSIF TG_OP = 'DELETE' THEN
        SELECT array_agg(d.id) AS ids, NULL::boolean[] AS says_other, NULL::boolean[] AS begins_elsewhere
          INTO changed
          FROM deleted d
          JOIN graphrag._histories h ON h.corpus_id = d.corpus_id;
    ELSE
        SELECT array_agg(n.id) AS ids,
               array_agg(o.retracted_at IS NOT NULL
                         OR (n.title, n.content, n.source_key, n.metadata) IS DISTINCT FROM (o.title, o.content, o.source_key, o.metadata)) AS says_other,
               array_agg(n.valid_from IS DISTINCT FROM o.valid_from) AS begins_elsewhere
          INTO changed
          FROM updated_new n
          JOIN updated_old o USING (id)
          JOIN graphrag._histories h ON h.corpus_id = n.corpus_id
         WHERE (n.title, n.content, n.source_key, n.metadata, n.valid_from, n.valid_to, n.retracted_at)
               IS DISTINCT FROM (o.title, o.content, o.source_key, o.metadata, o.valid_from, o.valid_to, o.retracted_at);
    END IF;
    IF changed.ids IS NOT NULL THEN
        PERFORM graphrag._change_versions(changed.ids, changed.says_other, changed.begins_elsewhere);
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION graphrag._keep_versions() IS 'Trigger of documents: writes versions into the history of a corpus that has one';
CREATE TRIGGER documents_keep_inserted AFTER INSERT ON graphrag.documents REFERENCING NEW TABLE AS inserted
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._keep_versions();
CREATE TRIGGER documents_keep_updated AFTER UPDATE ON graphrag.documents REFERENCING OLD TABLE AS updated_old NEW TABLE AS updated_new
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._keep_versions();
CREATE TRIGGER documents_keep_deleted AFTER DELETE ON graphrag.documents REFERENCING OLD TABLE AS deleted
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._keep_versions();

-- Brings a history to what the documents say: at its beginning, and after what came past the triggers.
CREATE FUNCTION graphrag._settle_versions(corpus_id int) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    UPDATE graphrag.documents v
       SET valid_to = greatest(least(v.valid_to, now()), v.valid_from), version_of = NULL
      FROM graphrag._histories h
     WHERE h.corpus_id = _settle_versions.corpus_id AND v.corpus_id = h.history_id AND v.version_of IS NOT NULL
       AND NOT EXISTS (SELECT FROM graphrag.documents d
                        WHERE d.id = v.version_of AND d.corpus_id = h.corpus_id
                          AND CASE WHEN d.retracted_at IS NULL THEN (d.title, d.content, d.metadata) IS NOT DISTINCT FROM (v.title, v.content, v.metadata)
                                   ELSE v.valid_to <= greatest(d.retracted_at, v.valid_from) END);
    PERFORM graphrag._begin_versions(array_agg(m.id), array_agg(CASE WHEN m.is_known THEN now() WHEN m.valid_to IS NULL THEN coalesce(m.valid_from, m.updated_at)
                                                                     ELSE m.valid_from END))
       -- By a window, which reads both once whatever the planner expects.
       FROM (SELECT x.*, bool_or(x.is_version) OVER (PARTITION BY x.stem) AS is_known
               FROM (SELECT d.id, d.valid_from, d.valid_to, d.updated_at, d.retracted_at, graphrag._version_stem(d.source_key) AS stem, false AS is_version
                       FROM graphrag.documents d
                      WHERE d.corpus_id = _settle_versions.corpus_id AND (d.retracted_at IS NULL OR d.valid_from < d.retracted_at)
                        AND NOT EXISTS (SELECT FROM graphrag.documents v WHERE v.version_of = d.id)
                      UNION ALL
                     SELECT NULL, NULL, NULL, NULL, NULL, left(v.source_key, -28), true
                       FROM graphrag._histories h
                       JOIN graphrag.documents v ON v.corpus_id = h.history_id
                      WHERE h.corpus_id = _settle_versions.corpus_id) x) m
      WHERE NOT m.is_version AND (m.retracted_at IS NULL OR NOT m.is_known)
     HAVING count(*) > 0;
END
$$;
COMMENT ON FUNCTION graphrag._settle_versions(int) IS 'Ends versions that differ from their documents, and begins missing ones';

-- SECURITY INVOKER: row-level security of the histories is the caller's.
CREATE VIEW graphrag.versions WITH (security_invoker = true) AS
SELECT c.name AS corpus,
       pg_catalog.left(v.source_key, -28) AS source_key,
       v.corpus AS history,
       v.id AS document_id,
       v.source_key AS version_key,
       pg_catalog.row_number() OVER (PARTITION BY v.corpus_id, pg_catalog.left(v.source_key, -28) ORDER BY pg_catalog.right(v.source_key, 27) COLLATE "C")::int AS version,
       v.version_of IS NOT NULL AS is_latest,
       CASE WHEN v.source_key ~ '@[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{6}Z$' THEN pg_catalog.right(v.source_key, 27)::timestamptz END AS written_at,
       v.valid_from,
       v.valid_to,
       v.title,
       v.content,
       v.metadata,
       v.status
  FROM graphrag.documents v
  JOIN graphrag._histories h ON h.history_id = v.corpus_id
  JOIN graphrag.corpora c ON c.id = h.corpus_id
 WHERE v.source_key ~ '@[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{6}Z$';
COMMENT ON VIEW graphrag.versions IS 'Versions of the documents of corpora with a history, for callers who see the documents of the history';
COMMENT ON COLUMN graphrag.versions.corpus IS 'Corpus of the document';
COMMENT ON COLUMN graphrag.versions.source_key IS 'Key of the document; for one longer than 1,970 bytes its SHA-256';
COMMENT ON COLUMN graphrag.versions.history IS 'Corpus of the versions';
COMMENT ON COLUMN graphrag.versions.document_id IS 'Number of the version, as in results of search() of the history';
COMMENT ON COLUMN graphrag.versions.version_key IS 'Key of the version in the history';
COMMENT ON COLUMN graphrag.versions.version IS 'Its number among the versions that the caller sees, from 1';
COMMENT ON COLUMN graphrag.versions.is_latest IS 'Whether it equals the document now, or when it was retracted';
COMMENT ON COLUMN graphrag.versions.written_at IS 'Time it was written';
COMMENT ON COLUMN graphrag.versions.valid_from IS 'Start of validity; null: always';
COMMENT ON COLUMN graphrag.versions.valid_to IS 'End of validity: it was replaced, deleted or retracted then, or its document says so; null: still valid';
COMMENT ON COLUMN graphrag.versions.title IS 'Title';
COMMENT ON COLUMN graphrag.versions.content IS 'Text';
COMMENT ON COLUMN graphrag.versions.metadata IS 'Metadata';
COMMENT ON COLUMN graphrag.versions.status IS 'Its state of indexing, as in documents';
