-- The same for relationships. A pair of entities has one relationship, so that two become one only with their entities (merge_entities).
CREATE FUNCTION graphrag.create_relationship(source text, target text, corpus text DEFAULT 'default', keywords text[] DEFAULT '{}', description text DEFAULT '', weight numeric DEFAULT 1) RETURNS bigint
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "index.curation.relationships:create", corpus, source, target, keywords, description, weight)
$$;
COMMENT ON FUNCTION graphrag.create_relationship(text, text, text, text[], text, numeric) IS 'Adds a relationship between two entities that no document has to state; later statements of documents join it. Returns the number of the curation. Owner only; 42704 if there is no such entity, 23505 if they are related already, 55000 if that relationship was deleted.';

CREATE FUNCTION graphrag.edit_relationship(source text, target text, corpus text DEFAULT 'default', keywords text[] DEFAULT NULL, description text DEFAULT NULL, weight numeric DEFAULT NULL) RETURNS bigint
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "index.curation.relationships:edit", corpus, source, target, keywords, description, weight)
$$;
COMMENT ON FUNCTION graphrag.edit_relationship(text, text, text, text[], text, numeric) IS 'Gives a relationship keywords, a description or a weight (null: unchanged) that override the documents, now and later; returns the number of the curation. The order of the two entities does not matter. Owner only; 42704 if there is no such relationship.';

CREATE FUNCTION graphrag.delete_relationship(source text, target text, corpus text DEFAULT 'default') RETURNS bigint
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "index.curation.relationships:delete", corpus, source, target)
$$;
COMMENT ON FUNCTION graphrag.delete_relationship(text, text, text) IS 'Removes a relationship from the graph; documents that state it later do not bring it back. Returns the number of the curation. Owner only; 42704 if there is no such relationship.';
