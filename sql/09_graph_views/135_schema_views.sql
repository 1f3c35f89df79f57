-- Which chunks mention which entities, with the attributes that a schema (the option entity_types) asked for; and what it had no place for.
CREATE VIEW graphrag.graph_mentions WITH (security_barrier = true) AS
SELECT u.corpus, u.entity_id, u.name, u.type, u.document_id, u.source_key, u.chunk_id, u.attributes, u.title, u.day, u.metadata,
       coalesce(u.extraction, CASE WHEN u.is_row THEN 'row' ELSE 'nlp' END) AS extraction
  FROM (
SELECT m.* FROM graphrag._merged_mentions m
 UNION ALL
SELECT p.*
  FROM (SELECT n.corpus, n.entity_id, n.name, n.type, m.document_id, m.chunk_id, m.attributes, m.source_key, m.title, m.day, m.metadata,
               c.extraction, c.is_row
          FROM graphrag._visible_mentions m
          JOIN graphrag._visible_entities n ON n.entity_id = m.entity_id
          LEFT JOIN graphrag.chunks c ON c.id = m.chunk_id
        OFFSET 0) p CROSS JOIN pg_catalog.generate_series(1, 1)) u;

COMMENT ON VIEW graphrag.graph_mentions IS 'Which chunks of which documents mention which entities, one row for each name in a chunk';
COMMENT ON COLUMN graphrag.graph_mentions.corpus IS 'Corpus';
COMMENT ON COLUMN graphrag.graph_mentions.entity_id IS 'Number of the entity';
COMMENT ON COLUMN graphrag.graph_mentions.name IS 'Its name';
COMMENT ON COLUMN graphrag.graph_mentions.type IS 'Its type';
COMMENT ON COLUMN graphrag.graph_mentions.document_id IS 'Document that mentions it';
COMMENT ON COLUMN graphrag.graph_mentions.source_key IS 'Its key: a view with this column serves as $relation of a filter';
COMMENT ON COLUMN graphrag.graph_mentions.chunk_id IS 'Chunk that mentions it';
COMMENT ON COLUMN graphrag.graph_mentions.attributes IS 'Attributes in the chunk, by the schema of the corpus: {name: value}; null: none';
COMMENT ON COLUMN graphrag.graph_mentions.title IS 'Title of the document';
COMMENT ON COLUMN graphrag.graph_mentions.day IS 'Day of the document: of its valid_from, else of its created_at (UTC)';
COMMENT ON COLUMN graphrag.graph_mentions.metadata IS 'Metadata of the document';
COMMENT ON COLUMN graphrag.graph_mentions.extraction IS 'Its origin: complete (a model''s reply, or an import), repaired (the readable part of a reply), cut off (the beginning of a reply, and the NLP extractor), stood in (the NLP extractor, because the model''s replies were unusable), nlp, or row';

CREATE VIEW graphrag.entity_attributes WITH (security_barrier = true) AS
SELECT n.corpus, n.entity_id, n.name, n.type, x.key AS attribute, x.value, pg_catalog.count(DISTINCT m.chunk_id)::int AS mention_count
  FROM (SELECT m.entity_id, m.chunk_id, m.attributes FROM graphrag._merged_mentions m WHERE m.attributes IS NOT NULL
         UNION ALL
        SELECT p.*
          FROM (SELECT m.entity_id, m.chunk_id, m.attributes FROM graphrag._visible_mentions m WHERE m.attributes IS NOT NULL OFFSET 0) p) m
  JOIN graphrag.graph_nodes n ON n.entity_id = m.entity_id
 CROSS JOIN LATERAL pg_catalog.jsonb_each(m.attributes) x
   -- Of all that have any. The planner knows nothing of the column, and expects one mention in a hundred, where it expected all.
 WHERE m.attributes OPERATOR(pg_catalog.@>) '{}'
 GROUP BY n.corpus, n.entity_id, n.name, n.type, x.key, x.value;

COMMENT ON VIEW graphrag.entity_attributes IS 'Attributes of entities, which a model extracted by the schema of the corpus: one row for each value that chunks give';
COMMENT ON COLUMN graphrag.entity_attributes.corpus IS 'Corpus';
COMMENT ON COLUMN graphrag.entity_attributes.entity_id IS 'Number of the entity';
COMMENT ON COLUMN graphrag.entity_attributes.name IS 'Its name';
COMMENT ON COLUMN graphrag.entity_attributes.type IS 'Its type';
COMMENT ON COLUMN graphrag.entity_attributes.attribute IS 'Attribute';
COMMENT ON COLUMN graphrag.entity_attributes.value IS 'Value, of the attribute''s type: a JSON string (also a date, as 2024-12-31), number or boolean';
COMMENT ON COLUMN graphrag.entity_attributes.mention_count IS 'Number of chunks that give this value';

CREATE VIEW graphrag.unfit_extractions WITH (security_barrier = true) AS
SELECT u.corpus, u.document_id, u.source_key, u.chunk_id, u.kind, u.item, u.reason, u.is_kept
  FROM (SELECT d.corpus, d.id AS document_id, d.source_key, c.id AS chunk_id, x.value ->> 'kind' AS kind, x.value -> 'item' AS item,
               x.value ->> 'reason' AS reason, x.value ? 'kept' AS is_kept
          FROM graphrag.chunks c
          JOIN graphrag.documents d ON d.id = c.document_id AND pg_catalog.num_nulls(d.retracted_at) <> 0
         CROSS JOIN LATERAL pg_catalog.jsonb_array_elements(c.unfit) x
         WHERE c.unfit IS NOT NULL
           -- As of _visible_documents, but asked of few chunks in place of all documents. A number: of booleans the planner expects a half.
           AND ((SELECT graphrag._whole_corpora())[c.corpus_id] OR c.document_id IN (SELECT graphrag.visible_documents()))::int <> 0
        OFFSET 0) u;

COMMENT ON VIEW graphrag.unfit_extractions IS 'Items that models extracted and that do not fit the text or the schema of the corpus. They are stored apart, and no search, view or graph shows them; or they are kept and marked (is_kept)';
COMMENT ON COLUMN graphrag.unfit_extractions.corpus IS 'Corpus';
COMMENT ON COLUMN graphrag.unfit_extractions.document_id IS 'Document';
COMMENT ON COLUMN graphrag.unfit_extractions.source_key IS 'Its key';
COMMENT ON COLUMN graphrag.unfit_extractions.chunk_id IS 'Chunk';
COMMENT ON COLUMN graphrag.unfit_extractions.kind IS 'entity, attribute, relationship, description or claim; reply: the reply for a chunk for which NLP stood in; rest: the number of further items of the chunk';
COMMENT ON COLUMN graphrag.unfit_extractions.item IS 'The model''s words: {name, type}, {name, attribute, value}, {source, target, keywords}, {said} or {count}; for a description or claim, lacking: its numbers and names that the text does not have';
COMMENT ON COLUMN graphrag.unfit_extractions.reason IS 'Why it does not fit';
COMMENT ON COLUMN graphrag.unfit_extractions.is_kept IS 'Whether the graph has it nevertheless: descriptions and claims, and, with grounding marked, names';
