-- The extension installs, takes a document, and finds it.
SET client_min_messages = warning;
CREATE EXTENSION pg_graphrag CASCADE;
INSERT INTO graphrag.documents (source_key, title, content)
VALUES ('smoke', 'Ada Lovelace', 'Ada Lovelace wrote the first program for the Analytical Engine of Charles Babbage.');
CALL graphrag.process_jobs();
SELECT source_key, title FROM graphrag.search('Who wrote the first program?', top_k => 1);
