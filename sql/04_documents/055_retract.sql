-- A retracted document stays as a row, with the moment and the reason. The index holds nothing of it: nobody finds it, and the graph is
-- what the other documents say. Whoever may UPDATE the columns may retract; these functions do no more.
ALTER TABLE graphrag.documents
    ADD COLUMN retracted_at timestamptz,
    ADD COLUMN retraction_reason text,
    ADD CONSTRAINT documents_retraction_check CHECK (retracted_at IS NOT NULL OR retraction_reason IS NULL);
COMMENT ON COLUMN graphrag.documents.retracted_at IS 'Time since when the document is retracted and no search and no view of the graph contains it; null: it is not. graphrag.retract() sets it';
COMMENT ON COLUMN graphrag.documents.retraction_reason IS 'Why it is retracted';

CREATE FUNCTION graphrag.retract(corpus text, source_key text, reason text, retracted_at timestamptz DEFAULT now()) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
    IF coalesce(btrim(reason), '') = '' THEN
        RAISE EXCEPTION 'reason cannot be %', coalesce(quote_literal(reason), 'null')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Say why the document is retracted: who reads documents is shown it.';
    END IF;
    IF retracted_at IS NULL OR retracted_at > now() THEN
        RAISE EXCEPTION 'retracted_at cannot be %', coalesce(retracted_at::text, 'null')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Give a moment that is not in the future, or leave it out: now.';
    END IF;
    UPDATE graphrag.documents d
       SET retracted_at = retracted_at, retraction_reason = reason
     WHERE d.corpus = corpus AND d.source_key = source_key;
    IF NOT FOUND THEN
        PERFORM graphrag._refuse_unknown_document(corpus, source_key);
    END IF;
END
$$;
COMMENT ON FUNCTION graphrag.retract(text, text, text, timestamptz) IS 'Retracts a document: from now on no search and no view of the graph contains it, and after the next worker run neither does cypher(); its row stays, with reason and time. If it is retracted again, the later reason and time count. Needs the caller''s right to UPDATE documents (retracted_at, retraction_reason). 22023 without a reason or for a time in the future; P0002 if the caller sees no such document; 42501 without the right.';

CREATE FUNCTION graphrag.undo_retraction(corpus text, source_key text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
    UPDATE graphrag.documents d
       SET retracted_at = NULL, retraction_reason = NULL
     WHERE d.corpus = corpus AND d.source_key = source_key;
    IF NOT FOUND THEN
        PERFORM graphrag._refuse_unknown_document(corpus, source_key);
    END IF;
END
$$;
COMMENT ON FUNCTION graphrag.undo_retraction(text, text) IS 'Ends the retraction of a document, which workers index again; no effect if it is not retracted. Rights and errors as for retract().';

CREATE FUNCTION graphrag._refuse_unknown_document(corpus text, source_key text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM graphrag.corpora c WHERE c.name = corpus) THEN
        PERFORM graphrag._unknown_corpus(corpus);
    END IF;
    RAISE EXCEPTION 'corpus "%" has no document "%"', corpus, coalesce(source_key, 'null')
        USING ERRCODE = 'no_data_found', HINT = 'SELECT source_key FROM graphrag.documents lists those that you may see.';
END
$$;
COMMENT ON FUNCTION graphrag._refuse_unknown_document(text, text) IS 'Raises that there is no such corpus, or no such document that the caller sees';
