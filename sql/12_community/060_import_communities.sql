-- Communities and reports of another GraphRAG that wait for their entities: the next refresh takes them over, and removes the rows.
CREATE TABLE graphrag.imported_communities (
    corpus_id   int   NOT NULL,
    communities jsonb NOT NULL,
    cited       jsonb,
    part        int   NOT NULL DEFAULT 1,
    CONSTRAINT imported_communities_pkey PRIMARY KEY (corpus_id, part),
    CONSTRAINT imported_communities_corpus_fkey FOREIGN KEY (corpus_id) REFERENCES graphrag.corpora (id) ON DELETE CASCADE,
    CONSTRAINT imported_communities_check CHECK (pg_catalog.jsonb_typeof(communities) = 'array')
);
SELECT pg_catalog.pg_extension_config_dump('graphrag.imported_communities', '');

COMMENT ON TABLE graphrag.imported_communities IS 'Imported communities that the next refresh of the corpus takes over. For the owner: no grant.';
COMMENT ON COLUMN graphrag.imported_communities.corpus_id IS 'Corpus';
COMMENT ON COLUMN graphrag.imported_communities.communities IS 'As given to import_communities()';
COMMENT ON COLUMN graphrag.imported_communities.cited IS 'Meaning of the numbers in the texts, as given to import_communities()';
COMMENT ON COLUMN graphrag.imported_communities.part IS 'Number of the call that gave them, counted since the first: data beyond the size of one argument come in parts';

CREATE FUNCTION graphrag.import_communities(corpus text, communities jsonb, cited jsonb DEFAULT NULL, more boolean DEFAULT false) RETURNS void
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "index.community.imported_communities:import_communities", corpus, communities, cited, more)
$$;
COMMENT ON FUNCTION graphrag.import_communities(text, jsonb, jsonb, boolean) IS 'Makes these the communities of a corpus, with their own reports: [{number, level, parent, entities: [name], created, report: {title, summary, content, findings: [{summary, explanation}], rating, rating_explanation, model}}], parent being the number of a community one level up. The next refresh, which is queued, takes them over; until its input changes, a report stays. cited: what the numbers of references such as [Data: Entities (5); Relationships (23, +more)] stand for, {"Entities": {"5": name}, "Relationships": {"23": [source, target]}}: in the texts they become our numbers, and unknown ones are left out. more: these are added to those of the earlier calls, in one transaction with them; parents come first. Owner only; 22023 for a bad entry, 42704 for an unknown corpus, 54000 for more than 8,388,608 characters, 55000 if more has nothing to be added to.';
