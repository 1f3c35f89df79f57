-- What people may do to entities; each returns the number of the curation, for undo_curation(). Documents that come later meet the same curations.
CREATE FUNCTION graphrag.create_entity(name text, corpus text DEFAULT 'default', type text DEFAULT 'UNKNOWN', description text DEFAULT '') RETURNS bigint
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "index.curation.entities:create", corpus, name, type, description)
$$;
COMMENT ON FUNCTION graphrag.create_entity(text, text, text, text) IS 'Adds an entity that no document has to mention, and returns the number of the curation. Name and type stay; the description joins those of documents. Owner only; 23505 if there is such an entity, 55000 if it was deleted.';

CREATE FUNCTION graphrag.edit_entity(entity text, corpus text DEFAULT 'default', type text DEFAULT NULL, description text DEFAULT NULL) RETURNS bigint
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "index.curation.entities:edit", corpus, entity, type, description)
$$;
COMMENT ON FUNCTION graphrag.edit_entity(text, text, text, text) IS 'Gives an entity a type or description (null: unchanged) that overrides the documents, now and later; returns the number of the curation. Owner only; 42704 if there is no such entity.';

CREATE FUNCTION graphrag.rename_entity(entity text, new_name text, corpus text DEFAULT 'default') RETURNS bigint
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "index.curation.entities:rename", corpus, entity, new_name)
$$;
COMMENT ON FUNCTION graphrag.rename_entity(text, text, text) IS 'Gives an entity another name; mentions of the old name, also later ones, still belong to it. Returns the number of the curation. Owner only; 42704 if there is no such entity, 23505 if another entity has the new name: merge_entities() makes them one.';

CREATE FUNCTION graphrag.merge_entities(entities text[], target text, corpus text DEFAULT 'default') RETURNS bigint
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "index.curation.entities:merge", corpus, entities, target)
$$;
COMMENT ON FUNCTION graphrag.merge_entities(text[], text, text) IS 'Makes entities one with target, which keeps its name; their names become its aliases, so that later mentions belong to it. Returns the number of the curation. Owner only; 42704 if there is no such entity, 22023 for an entity and itself.';

CREATE FUNCTION graphrag.delete_entity(entity text, corpus text DEFAULT 'default') RETURNS bigint
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "index.curation.entities:delete", corpus, entity)
$$;
COMMENT ON FUNCTION graphrag.delete_entity(text, text) IS 'Removes an entity and its relationships from the graph; later mentions do not bring it back. Returns the number of the curation. Owner only; 42704 if there is no such entity.';
