-- Communities and reports of another GraphRAG that wait for their entities: the next refresh takes them over, and removes the row.
CREATE TABLE graphrag.imported_communities (
    corpus_id   int   NOT NULL,
    communities jsonb NOT NULL,
    cited       jsonb,
    CONSTRAINT imported_communities_pkey PRIMARY KEY (corpus_id),
    CONSTRAINT imported_communities_corpus_fkey FOREIGN KEY (corpus_id) REFERENCES graphrag.corpora (id) ON DELETE CASCADE,
    CONSTRAINT imported_communities_check CHECK (pg_catalog.jsonb_typeof(communities) = 'array')
);
SELECT pg_catalog.pg_extension_config_dump('graphrag.imported_communities', '');

COMMENT ON TABLE graphrag.imported_communities IS 'Imported communities that the next refresh of the corpus takes over. The owner''s: no grant.';
COMMENT ON COLUMN graphrag.imported_communities.corpus_id IS 'Corpus';
COMMENT ON COLUMN graphrag.imported_communities.communities IS 'As given to import_communities()';
COMMENT ON COLUMN graphrag.imported_communities.cited IS 'What the numbers in the texts stand for, likewise';

CREATE FUNCTION graphrag.import_communities(corpus text, communities jsonb, cited jsonb DEFAULT NULL) RETURNS void
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "community.imported:import_communities", corpus, communities, cited)
$$;
REVOKE ALL ON FUNCTION graphrag.import_communities(text, jsonb, jsonb) FROM PUBLIC;
COMMENT ON FUNCTION graphrag.import_communities(text, jsonb, jsonb) IS 'Makes these the communities of a corpus, with their own reports: [{number, level, parent, entities: [name], created, report: {title, summary, content, findings: [{summary, explanation}], rating, rating_explanation, model}}], parent being the number of a community one level up. Taken over by the next refresh, which is queued; until its input changes, a report stays. cited: what the numbers of references such as [Data: Entities (5); Relationships (23, +more)] stand for, {"Entities": {"5": name}, "Relationships": {"23": [source, target]}}: the texts get the numbers of here, and those that stand for nothing are left out. Owner only; 22023 for a bad entry, 42704 for an unknown corpus.';
