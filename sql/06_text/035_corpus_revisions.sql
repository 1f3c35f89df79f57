-- Which transaction last changed what the documents of a corpus were made into: two snapshots that see one revision see the same
-- chunks, mentions, entities, relationships and vectors. Whoever changes them writes this row, in the same (sub)transaction.
CREATE TABLE graphrag.corpus_revisions (
    corpus_id int  NOT NULL,
    revision  xid8 NOT NULL,
    CONSTRAINT corpus_revisions_pkey PRIMARY KEY (corpus_id),
    CONSTRAINT corpus_revisions_corpus_fkey FOREIGN KEY (corpus_id) REFERENCES graphrag.corpora (id) ON DELETE CASCADE
) WITH (fillfactor = 50);
SELECT pg_catalog.pg_extension_config_dump('graphrag.corpus_revisions', '');

COMMENT ON TABLE graphrag.corpus_revisions IS 'By these, sessions check whether their caches of a corpus are current';
COMMENT ON COLUMN graphrag.corpus_revisions.corpus_id IS 'Corpus';
COMMENT ON COLUMN graphrag.corpus_revisions.revision IS 'Transaction that last changed its chunks, mentions, graph or vectors';
