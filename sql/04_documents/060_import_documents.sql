-- What another GraphRAG said of a document, and how it was cut. Used in place of the corpus' own extractor whenever the
-- document is indexed, as long as its content is the one that was imported. No foreign key: documents may be truncated.
CREATE TABLE graphrag.imported_extractions (
    document_id  bigint NOT NULL,
    corpus_id    int    NOT NULL,
    content_hash text   NOT NULL COLLATE "C",
    chunks       jsonb  NOT NULL,
    CONSTRAINT imported_extractions_pkey PRIMARY KEY (document_id),
    CONSTRAINT imported_extractions_chunks_check CHECK (pg_catalog.jsonb_typeof(chunks) = 'array')
);
CREATE INDEX imported_extractions_corpus_idx ON graphrag.imported_extractions (corpus_id);
SELECT pg_catalog.pg_extension_config_dump('graphrag.imported_extractions', '');

COMMENT ON TABLE graphrag.imported_extractions IS 'Chunks, entities, relationships and claims of imported documents; removed with the document or its content';
COMMENT ON COLUMN graphrag.imported_extractions.document_id IS 'Document';
COMMENT ON COLUMN graphrag.imported_extractions.corpus_id IS 'Corpus of the document';
COMMENT ON COLUMN graphrag.imported_extractions.content_hash IS 'content_hash of the document when it was imported';
COMMENT ON COLUMN graphrag.imported_extractions.chunks IS '[{start, own_start, end, head, entities, relationships, claims}], as given to import_documents()';

CREATE FUNCTION graphrag.import_documents(corpus text, documents jsonb) RETURNS jsonb
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "index.documents.imported_documents:import_documents", corpus, documents)
$$;
COMMENT ON FUNCTION graphrag.import_documents(text, jsonb) IS 'Inserts documents (or replaces those of the same source_key) together with their extraction: [{source_key, title, content, metadata, chunks: [{start, end, own_start, head, entities: [{name, type, description}], relationships: [{source, target, keywords, description, weight}], claims: [{subject, object, type, status, start, end, description, source_text}]}]}]. Offsets count characters of content; own_start is where the overlap with the chunk before ends. Workers index them without asking a model, now and later, as long as the content stays. Returns {documents, unchanged, dropped}: dropped says what could not be used. Owner only; 22023 for a bad entry, 42704 for an unknown corpus.';
