"""Attacks on verdicts: a reader gives them on what he may read, learns nothing of others, and does not fill the disk."""

from tests.runtime.cluster import Database
from tests.security.readers import readers, session_of
from tests.sql.ingest import STORIES, index_all, put_all, refused, rows, searched_corpus, value, work

GIVE = "SELECT graphrag.feedback(%s, 'good', %s, evidence => %s)"


def test_a_key_of_a_hidden_document_is_refused_as_one_that_nobody_has(db: Database) -> None:
    corpus = index_all(db, searched_corpus(db), STORIES)
    db.execute("SELECT graphrag.protect(%s, $$source_key = 'ada'$$)", [corpus])
    with readers(db, 1) as (alice,), session_of(db, alice) as session:
        session.execute(GIVE, ["Who?", corpus, ["ada"]])
        hidden, absent = (refused(session, GIVE, "Who?", corpus, [key]) for key in ("hopper", "nobody"))
        assert hidden.sqlstate == absent.sqlstate == "22023"
        assert str(hidden.message_primary).replace("hopper", "nobody") == absent.message_primary
        for closed in (
            "SELECT * FROM graphrag.answer_feedback",
            "INSERT INTO graphrag.answer_feedback (corpus_id, role, question, verdict) VALUES (1, 'x', 'x', 'good')",
            "SELECT graphrag.golden_questions('default')",
            "SELECT graphrag.compare_corpora('default', 'default', '[]')",
            "SELECT graphrag.clone_corpus('default', 'mine')",
            "SELECT nextval('graphrag.answer_feedback_id_seq')",
        ):
            assert refused(session, closed).sqlstate == "42501", closed


def test_a_clone_is_closed_to_readers_of_what_it_was_made_of(db: Database) -> None:
    corpus = searched_corpus(db)
    put_all(db, corpus, STORIES)
    db.execute("SELECT graphrag.protect(%s, $$source_key = 'ada'$$)", [corpus])
    db.execute("SELECT graphrag.clone_corpus(%s, 'clone')", [corpus])
    work(db)
    with readers(db, 1) as (alice,), session_of(db, alice) as session:
        assert rows(session, "SELECT source_key FROM graphrag.documents") == [("ada",)]
        assert rows(session, "SELECT * FROM graphrag.search('Grace Hopper', 'clone')") == []


def test_a_role_gives_so_many_verdicts_a_minute_and_changes_none_of_others(db: Database) -> None:
    corpus = index_all(db, searched_corpus(db), STORIES)
    db.execute(GIVE, ["Who?", corpus, ["ada"]])
    with readers(db, 2) as (alice, bob):
        with session_of(db, alice) as session:
            session.execute(GIVE, ["Who?", corpus, ["hopper"]])
            sent = 1
            while sent < 130:
                try:
                    session.execute(GIVE, [f"Who is number {sent}?", corpus, ["ada"]])
                except Exception as error:
                    assert getattr(error, "sqlstate", None) == "54000"
                    break
                sent += 1
            # In two minutes at most, the first of which was nearly over.
            assert 60 <= sent <= 120
        with session_of(db, bob) as session:
            session.execute(GIVE, ["Who?", corpus, ["turing"]])
    assert value(db, "SELECT count(*) FROM graphrag.answer_feedback WHERE question = 'Who?'") == 3


def test_a_role_is_one_voice_however_many_authors_it_names(db: Database) -> None:
    corpus = index_all(db, searched_corpus(db), STORIES)
    with readers(db, 4) as roles:
        attacker, *honest = roles
        with session_of(db, attacker) as session:
            for author in range(9):
                session.execute(
                    "SELECT graphrag.feedback('Who?', 'bad', %s, evidence => '{turing}', author => %s)",
                    [corpus, f"author {author}"],
                )
            # One more author, of a name that reads like a role's.
            session.execute("SELECT graphrag.feedback('Who?', 'bad', %s, author => %s)", [corpus, honest[0]])
        for role in honest:
            with session_of(db, role) as session:
                session.execute(GIVE, ["Who?", corpus, ["ada"]])
    (item,) = value(db, "SELECT graphrag.golden_questions(%s)", corpus)
    assert (item["evidence"], item["good"], item["bad"]) == (["ada"], 3, 1)
