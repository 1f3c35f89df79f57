-- What tells versions of a document apart. STABLE as convert_to() is: else it is not inlined, and called for each row.
CREATE FUNCTION graphrag._content_hash(title text, content text, pictures_hash text DEFAULT NULL) RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(coalesce(title, '') || E'\n' || content || coalesce(E'\n' || pictures_hash, ''), 'UTF8')), 'hex');
END;

-- Whether a document is a row of an attached table: its mentions are made of its metadata, too.
CREATE FUNCTION graphrag._is_row(attached_id int) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN attached_id IS NOT NULL
       AND EXISTS (SELECT FROM graphrag._attached_tables a WHERE a.id = _is_row.attached_id AND a.kind <> 'documents');
END
$$;

-- Before each row: resolve the corpus, keep the hash, and clear indexed_at when there is something to index.
-- SECURITY DEFINER: an application that may insert documents need not own corpora, which this makes for "default".
CREATE FUNCTION graphrag._documents_before() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF (NEW.id, NEW.corpus) IS DISTINCT FROM (OLD.id, OLD.corpus) THEN
            RAISE EXCEPTION 'document % cannot change its id or corpus', OLD.id
                USING ERRCODE = 'feature_not_supported', HINT = 'Delete the document and insert it into the other corpus.';
        END IF;
        NEW.corpus_id := OLD.corpus_id;
        IF (NEW.title, NEW.content, NEW.source_key, NEW.metadata) IS DISTINCT FROM (OLD.title, OLD.content, OLD.source_key, OLD.metadata) THEN
            NEW.updated_at := now();
        END IF;
    ELSE
        -- The foreign key would wait for who drops the corpus too, and then fail without a hint. In other levels a lock fails where the
        -- corpus was altered since the snapshot.
        IF current_setting('transaction_isolation') IN ('read committed', 'read uncommitted') THEN
            SELECT c.id INTO NEW.corpus_id FROM graphrag.corpora c WHERE c.name = NEW.corpus AND (c.move IS NULL OR c.move ? 'is_restored') FOR KEY SHARE;
        ELSE
            SELECT c.id INTO NEW.corpus_id FROM graphrag.corpora c WHERE c.name = NEW.corpus AND (c.move IS NULL OR c.move ? 'is_restored');
        END IF;
        IF NEW.corpus_id IS NULL THEN
            -- Before ON CONFLICT, which would tell of a key that arrives.
            PERFORM graphrag._say_moved(c.name, c.move) FROM graphrag.corpora c WHERE c.name = NEW.corpus AND c.move IS NOT NULL;
            IF NEW.corpus IS DISTINCT FROM 'default' OR (SELECT p.node FROM graphrag._placed(NEW.corpus) p) IS NOT NULL THEN
                PERFORM graphrag._unknown_corpus(NEW.corpus, format('Create it with SELECT graphrag.create_corpus(%L);', NEW.corpus));
            END IF;
            NEW.corpus_id := graphrag._default_corpus();
        END IF;
    END IF;
    -- An indexed_hash that is taken away, or another content_hash, asks for a new look: content that came past this trigger has an old hash.
    IF TG_OP = 'INSERT' OR (NEW.title, NEW.content, NEW.pictures_hash) IS DISTINCT FROM (OLD.title, OLD.content, OLD.pictures_hash)
       OR (NEW.indexed_hash IS NULL AND OLD.indexed_hash IS NOT NULL) OR NEW.content_hash IS DISTINCT FROM OLD.content_hash THEN
        NEW.content_hash := graphrag._content_hash(NEW.title, NEW.content, NEW.pictures_hash);
    ELSE
        NEW.content_hash := OLD.content_hash;
    END IF;
    -- Without content, that is what the error names.
    NEW.source_key := coalesce(NEW.source_key, NEW.content_hash, 'none');
    -- The check says the same of rows that come past this trigger, without a way out.
    IF jsonb_typeof(NEW.metadata) <> 'object' THEN
        RAISE EXCEPTION 'metadata of document "%" cannot be %', left(NEW.source_key, 200), left(NEW.metadata::text, 100)
            USING ERRCODE = 'check_violation', HINT = 'Give an object, such as {"version": 17}; a list may be the value of one of its names.',
                  SCHEMA = 'graphrag', TABLE = 'documents', CONSTRAINT = 'documents_metadata_check';
    END IF;
    IF NEW.retracted_at IS NOT NULL THEN
        -- Nothing of it is found from now on, whatever was at work on it; a worker removes what was made of it.
        NEW.indexed_hash := NULL;
        NEW.indexed_at := NULL;
        NEW.status := 'retracted';
        NEW.error := NULL;
        RETURN NEW;
    END IF;
    -- The source key decides ties and is shown in the graph, so a new one is new work.
    IF NEW.indexed_hash IS DISTINCT FROM NEW.content_hash
       OR TG_OP = 'UPDATE' AND (NEW.source_key <> OLD.source_key
                                OR (NEW.metadata, NEW.attached_id) IS DISTINCT FROM (OLD.metadata, OLD.attached_id) AND graphrag._is_row(NEW.attached_id)) THEN
        NEW.indexed_at := NULL;
    END IF;
    IF NEW.indexed_at IS NOT NULL THEN
        NEW.status := 'indexed';
    ELSIF NEW.status IN ('indexed', 'retracted') OR TG_OP = 'INSERT' OR NEW.content_hash <> OLD.content_hash THEN
        NEW.status := 'pending';
        NEW.error := NULL;
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION graphrag._documents_before() IS 'Trigger of documents: sets corpus, hash, times';

-- Rows that a subscription applies pass the other triggers. Their corpus is the one that they name: its number at the publisher may be
-- another corpus' here, one that more may read. What the publisher has indexed is not what is indexed here: taken for it, former text
-- would be shown by the permission of the new, and chunks of a deleted document as those of another under its number.
-- SECURITY DEFINER: who applies rows as himself may not read what is made of documents.
CREATE FUNCTION graphrag._documents_replicated() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    NEW.pictures_hash := graphrag._pictures_hash(NEW.id);
    NEW.content_hash := graphrag._content_hash(NEW.title, NEW.content, NEW.pictures_hash);
    IF TG_OP = 'UPDATE' THEN
        IF (NEW.id, NEW.corpus) IS DISTINCT FROM (OLD.id, OLD.corpus) THEN
            RAISE EXCEPTION 'document % cannot change its id or corpus', OLD.id
                USING ERRCODE = 'feature_not_supported', HINT = 'Delete the document and insert it into the other corpus.';
        END IF;
        NEW.corpus_id := OLD.corpus_id;
        NEW.indexed_hash := CASE WHEN NEW.retracted_at IS NULL THEN OLD.indexed_hash END;
        -- As above.
        NEW.indexed_at := CASE WHEN NEW.retracted_at IS NULL AND (NEW.content_hash, NEW.source_key) = (OLD.content_hash, OLD.source_key) THEN OLD.indexed_at END;
        NEW.status := CASE WHEN NEW.retracted_at IS NOT NULL THEN 'retracted'
                           WHEN NEW.indexed_at IS NULL AND (OLD.status IN ('indexed', 'retracted') OR NEW.content_hash <> OLD.content_hash) THEN 'pending'
                           ELSE OLD.status END;
        NEW.error := CASE WHEN NEW.status = OLD.status THEN OLD.error END;
        RETURN NEW;
    END IF;
    SELECT c.id INTO NEW.corpus_id FROM graphrag.corpora c WHERE c.name = NEW.corpus;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'a replicated document is of corpus "%", which does not exist here', NEW.corpus
            USING ERRCODE = 'undefined_object', HINT = format('Create it with SELECT graphrag.create_corpus(%L); the subscription goes on by itself.', NEW.corpus);
    END IF;
    -- A restore that leaves triggers out brings what is indexed, and the chunks after the documents.
    IF EXISTS (SELECT FROM graphrag.chunks c WHERE c.document_id = NEW.id) THEN
        NEW.indexed_hash := NULL;
        NEW.indexed_at := NULL;
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION graphrag._documents_replicated() IS 'Trigger of documents that replication applies: sets corpus, hash, and the state of the index here';

-- What the triggers of statements do, for rows that replication applies: it fires none of those but for TRUNCATE.
-- SECURITY DEFINER: who applies rows may not write the queue.
CREATE FUNCTION graphrag._documents_applied() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    is_due boolean;
BEGIN
    PERFORM graphrag._refuse_moved(CASE TG_OP WHEN 'DELETE' THEN OLD.corpus_id ELSE NEW.corpus_id END);
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO graphrag._document_counts (corpus_id, status, is_searchable, count)
        VALUES (OLD.corpus_id, OLD.status, coalesce(OLD.indexed_hash = OLD.content_hash, false), -1);
    END IF;
    IF TG_OP = 'DELETE' THEN
        PERFORM graphrag._void_documents(ARRAY[OLD.id]);
        RETURN NULL;
    END IF;
    INSERT INTO graphrag._document_counts (corpus_id, status, is_searchable, count)
    VALUES (NEW.corpus_id, NEW.status, coalesce(NEW.indexed_hash = NEW.content_hash, false), 1);
    is_due := NEW.indexed_at IS NULL AND NEW.retracted_at IS NULL;
    IF TG_OP = 'UPDATE' THEN
        is_due := is_due AND (OLD.indexed_at IS NOT NULL OR OLD.retracted_at IS NOT NULL
                              OR (NEW.content_hash, NEW.source_key) <> (OLD.content_hash, OLD.source_key));
        IF NEW.retracted_at IS NOT NULL AND OLD.retracted_at IS NULL THEN
            PERFORM graphrag._requeue_jobs('remove', ARRAY[NEW.corpus_id], ARRAY[NEW.id]);
        END IF;
    END IF;
    IF is_due THEN
        PERFORM graphrag._requeue_jobs('index', ARRAY[NEW.corpus_id], ARRAY[NEW.id]);
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION graphrag._documents_applied() IS 'Trigger of documents that replication applies: queues and counts them';

CREATE FUNCTION graphrag._default_corpus() RETURNS int
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN graphrag.create_corpus('default');
EXCEPTION WHEN unique_violation THEN
    -- Another session made it at the same moment.
    RETURN (SELECT c.id FROM graphrag.corpora c WHERE c.name = 'default');
END
$$;

-- After each statement: queue what is due. New content supersedes whatever was queued, leased or failed for the document.
-- SECURITY DEFINER: the queue is not the application's to write.
CREATE FUNCTION graphrag._documents_inserted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM graphrag._refuse_moved(VARIADIC array_agg(DISTINCT d.corpus_id)) FROM inserted d;
    PERFORM graphrag._requeue_jobs('index', array_agg(d.corpus_id), array_agg(d.id)) FROM inserted d
      WHERE d.indexed_at IS NULL AND d.retracted_at IS NULL;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION graphrag._documents_inserted() IS 'Trigger of documents: queues new ones';

-- No nested loops: the plan that a session keeps was made for few rows, and 10,000 would take 40 s.
CREATE FUNCTION graphrag._documents_updated() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_nestloop = off
AS $$
DECLARE
    rewritten_ids bigint[];
BEGIN
    PERFORM graphrag._refuse_moved(VARIADIC array_agg(DISTINCT n.corpus_id)) FROM updated_new n;
    PERFORM graphrag._requeue_jobs('index', array_agg(n.corpus_id), array_agg(n.id))
       FROM updated_new n
       JOIN updated_old o USING (id)
      WHERE n.indexed_at IS NULL AND n.retracted_at IS NULL
        AND (o.indexed_at IS NOT NULL OR n.content_hash <> o.content_hash OR n.source_key <> o.source_key
             OR n.indexed_hash IS NULL AND o.indexed_hash IS NOT NULL OR o.retracted_at IS NOT NULL
             OR (n.metadata, n.attached_id) IS DISTINCT FROM (o.metadata, o.attached_id) AND graphrag._is_row(n.attached_id));
    PERFORM graphrag._requeue_jobs('remove', array_agg(n.corpus_id), array_agg(n.id))
       FROM updated_new n
       JOIN updated_old o USING (id)
      WHERE n.retracted_at IS NOT NULL AND o.retracted_at IS NULL;
    -- Pictures are of the content that they came with.
    SELECT array_agg(n.id) INTO rewritten_ids
      FROM updated_new n
      JOIN updated_old o USING (id)
     WHERE n.pictures_hash IS NOT NULL AND n.content <> o.content;
    IF rewritten_ids IS NOT NULL THEN
        DELETE FROM graphrag.pictures p WHERE p.document_id = ANY (rewritten_ids);
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION graphrag._documents_updated() IS 'Trigger of documents: queues changed ones';

-- Of what was never indexed there is nothing to remove, and no search has to look past it: what waits for it is void. A worker that
-- writes a document has locked it, so this comes after what that has written.
CREATE FUNCTION graphrag._void_documents(ids bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
BEGIN
    DELETE FROM graphrag.jobs j WHERE j.chunks IS NULL AND j.document_id = ANY (ids);
    DELETE FROM graphrag.imported_extractions i WHERE i.document_id = ANY (ids);
    DELETE FROM graphrag.pictures p WHERE p.document_id = ANY (ids);
    PERFORM graphrag._requeue_jobs('remove', array_agg(c.corpus_id), array_agg(c.document_id))
       FROM (SELECT DISTINCT k.corpus_id, k.document_id FROM graphrag.chunks k WHERE k.document_id = ANY (ids)) c;
END
$$;

CREATE FUNCTION graphrag._documents_deleted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM graphrag._refuse_moved(VARIADIC array_agg(DISTINCT d.corpus_id)) FROM deleted d;
    PERFORM graphrag._void_documents((SELECT array_agg(d.id) FROM deleted d));
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION graphrag._documents_deleted() IS 'Trigger of documents: queues the removal of derived rows';

-- TRUNCATE has no transition table, and in a transaction with an old snapshot it takes more documents than this sees: a worker
-- looks at what is left of them. Whatever waits is void.
CREATE FUNCTION graphrag._documents_truncated() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM graphrag._refuse_moved(VARIADIC array_agg(c.id)) FROM graphrag.corpora c;
    DELETE FROM graphrag.jobs WHERE document_id IS NOT NULL;
    DELETE FROM graphrag.imported_extractions;
    TRUNCATE graphrag.pictures;
    PERFORM graphrag._requeue_jobs('sweep', array_agg(c.id)) FROM graphrag.corpora c;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION graphrag._documents_truncated() IS 'Trigger of documents: queues the removal of all derived rows';

CREATE TRIGGER documents_before BEFORE INSERT OR UPDATE ON graphrag.documents
    FOR EACH ROW EXECUTE FUNCTION graphrag._documents_before();
CREATE TRIGGER documents_replicated BEFORE INSERT OR UPDATE ON graphrag.documents
    FOR EACH ROW EXECUTE FUNCTION graphrag._documents_replicated();
ALTER TABLE graphrag.documents ENABLE REPLICA TRIGGER documents_replicated;
CREATE TRIGGER documents_applied AFTER INSERT OR UPDATE OR DELETE ON graphrag.documents
    FOR EACH ROW EXECUTE FUNCTION graphrag._documents_applied();
ALTER TABLE graphrag.documents ENABLE REPLICA TRIGGER documents_applied;
CREATE TRIGGER documents_inserted AFTER INSERT ON graphrag.documents REFERENCING NEW TABLE AS inserted
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._documents_inserted();
CREATE TRIGGER documents_updated AFTER UPDATE ON graphrag.documents REFERENCING OLD TABLE AS updated_old NEW TABLE AS updated_new
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._documents_updated();
CREATE TRIGGER documents_deleted AFTER DELETE ON graphrag.documents REFERENCING OLD TABLE AS deleted
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._documents_deleted();
CREATE TRIGGER documents_truncated AFTER TRUNCATE ON graphrag.documents
    FOR EACH STATEMENT EXECUTE FUNCTION graphrag._documents_truncated();
ALTER TABLE graphrag.documents ENABLE ALWAYS TRIGGER documents_truncated;
