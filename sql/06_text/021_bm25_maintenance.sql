-- Add items to the tail, in the transaction that inserts them. Items whose tsv is null have no text and are no items of BM25.
-- The frequency of a lexeme is the number of its positions, or what tf_overflow says where a tsvector cannot hold them all.
-- Terms made for names (who0z0 for The Who, signhash120z0 for #12) stand beside a text, and make it no longer: "What about you?" has five.
-- By index alone: the plan that a session keeps was made for small tables.
CREATE FUNCTION graphrag._bm25_add(corpus_id int, kind text, item_ids bigint[], document_ids bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
BEGIN
    INSERT INTO graphrag.bm25_tail (corpus_id, kind, item_id, document_id, length, terms, frequencies)
    SELECT $1, $2, given.item_id, given.document_id, counted.length, counted.terms, counted.frequencies
      FROM unnest($3, $4) AS given (item_id, document_id)
           JOIN LATERAL (
               SELECT c.tsv, c.tf_overflow
                 FROM graphrag.chunks c
                WHERE $2 = 'chunk' AND c.id = given.item_id
               UNION ALL
               SELECT m.tsv, NULL
                 FROM graphrag.entity_mentions m
                WHERE $2 = 'entity_mention' AND m.id = given.item_id AND m.tsv IS NOT NULL
               UNION ALL
               SELECT m.tsv, NULL
                 FROM graphrag.relationship_mentions m
                WHERE $2 = 'relationship_mention' AND m.id = given.item_id AND m.tsv IS NOT NULL
           ) AS item ON true
           CROSS JOIN LATERAL (
               SELECT coalesce(sum(tf) FILTER (WHERE lexeme NOT LIKE '%0z0'), 0) AS length,
                      coalesce(array_agg(lexeme), '{}') AS terms,
                      coalesce(string_agg(int4send(tf), ''), '') AS frequencies
                 FROM (SELECT lexeme, coalesce((item.tf_overflow ->> lexeme)::int, cardinality(positions), 1) AS tf
                         FROM unnest(item.tsv)) AS term
           ) AS counted;
END
$$;
COMMENT ON FUNCTION graphrag._bm25_add(int, text, bigint[], bigint[]) IS
    'Makes items searchable by BM25; call it in the transaction that inserts them';

-- Remove items. Deleting the tail row waits for an optimize() that has just packed the item; a row that is gone then means it is packed.
CREATE FUNCTION graphrag._bm25_remove(corpus_id int, kind text, item_ids bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- Sorted, so that two removals lock rows in one order.
    PERFORM FROM graphrag.bm25_tail t
      WHERE t.corpus_id = $1 AND t.kind = $2 AND t.item_id = ANY ($3) ORDER BY t.item_id FOR UPDATE;
    WITH unpacked AS (
        DELETE FROM graphrag.bm25_tail t
         WHERE t.corpus_id = $1 AND t.kind = $2 AND t.item_id = ANY ($3)
        RETURNING t.item_id
    )
    INSERT INTO graphrag.bm25_tombstones (corpus_id, kind, item_id)
    SELECT DISTINCT $1, $2, given.item_id
      FROM unnest($3) AS given (item_id)
     WHERE NOT EXISTS (SELECT FROM unpacked WHERE unpacked.item_id = given.item_id)
    ON CONFLICT DO NOTHING;
END
$$;
COMMENT ON FUNCTION graphrag._bm25_remove(int, text, bigint[]) IS
    'Takes items out of BM25; call it in the transaction that deletes them, with items that have a tsv';

-- One optimize() of a corpus at a time. Nothing else waits for this lock but dropping the corpus.
CREATE FUNCTION graphrag._bm25_lock(corpus_id int) RETURNS void
LANGUAGE sql VOLATILE
BEGIN ATOMIC
    SELECT graphrag._lock(corpus_id, 'bm25');
    SELECT graphrag._refuse_moved(corpus_id);
END;
COMMENT ON FUNCTION graphrag._bm25_lock(int) IS 'Waits until no optimize() of the corpus runs, and keeps others out until the end of the transaction';

-- Postings go with their segment. A statement trigger instead of a foreign key, which would check every posting written.
CREATE FUNCTION graphrag._bm25_delete_postings() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    DELETE FROM graphrag.bm25_postings WHERE segment_id IN (SELECT id FROM gone);
    RETURN NULL;
END
$$;
CREATE TRIGGER bm25_segments_delete AFTER DELETE ON graphrag.bm25_segments
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION graphrag._bm25_delete_postings();
