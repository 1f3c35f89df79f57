"""Documents of a day or month that the query names: "What did Ann say on 8 May 2023?"

Their `valid_from` is in it, by the time zone of the session. What a text says of days, its words are found by.
"""

from pg_graphrag.ground.numeric import Flags, Ids, int64s, np, packed, within
from pg_graphrag.llm.asking.length_limits import MAX_UNDERSTOOD
from pg_graphrag.search.query.query import Query, timed
from pg_graphrag.search.query.rankings import Fused, leveled_sums, ranking
from pg_graphrag.text.dates import periods

# Of what it scores above the last chunk, what a chunk of a named time has besides. From 1.5 to 2 all are as good.
DATED = 1.5
# Where a larger share of the found chunks are of that time, it tells nothing: they may have been imported then.
MANY = 0.5
# Words of questions that ask for what is of a time: "What changed in May?"
_HAPPEN = """
what change changes changed happen happened happens new news event events going occur occurred do done there made look
ändern änderte geändert änderung änderungen verändert passiert passierte geschah geschehen los gab gibt neu neue neues neuigkeiten
changé changement changements passé nouveau nouveautés cambió cambiado cambios pasó pasado novedades nuevo cambiato cambiamenti
successo novità mudou mudanças aconteceu novidades veranderd veranderde gebeurd gebeurde gebeurt nieuw nieuws wijzigingen
変わる 変更 変化 起きる 起こる 有る 出来事 予定 行事 新しい
变化 變化 改变 改變 变更 變更 发生 發生 新 新闻 事
"""
_DATED = f"""
SELECT {packed(ids="c.id")}
  FROM graphrag.chunks c
  JOIN graphrag.documents d ON d.id = c.document_id
 WHERE c.id = ANY ($1) AND pg_catalog.to_char(d.valid_from, 'YYYY-MM-DD') LIKE ANY ($2)
"""


@timed("dates")
def with_named_dates(query: Query, fused: Fused) -> Fused:
    """Bring forward the chunks of documents whose `valid_from` is in a day or month that the query names.

    The less, the more of the found chunks these are.
    """
    named, _ = periods(query.text[:MAX_UNDERSTOOD])
    if not named or not len(fused.ids):
        return fused
    is_dated = _dated(query, fused.ids, named)
    share = float(is_dated.mean())
    if not 0 < share < MANY:
        return fused
    scores = fused.scores.copy()
    scores[is_dated] += DATED * (1 - share / MANY) * (scores[is_dated] - scores.min())
    gains = leveled_sums(scores[is_dated] - fused.scores[is_dated])
    raised = ranking("dates", fused.ids[is_dated], gains, lambda _: {"named": named})
    return Fused(fused.ids, scores, [*fused.rankings, raised])


def words_of_time(query: Query, chunks: Ids) -> tuple[set[str], Flags]:
    """Return the words of the query that documents of a day or month it names have by their date, and which chunks are of one.

    They are those that name the time; where it has no others but such as "change" and "happen", these too.
    """
    named, rest = periods(query.text[:MAX_UNDERSTOOD])
    is_dated = _dated(query, chunks, named) if named else np.zeros(len(chunks), np.bool_)
    if not is_dated.any():
        return set(), is_dated
    words, of_rest = (set[str]().union(*query.telling_terms_by_language(text)) for text in (query.text, rest))
    return (words if words & of_rest <= query.lexemes(_HAPPEN).keys() else words - of_rest), is_dated


def _dated(query: Query, chunks: Ids, named: list[str]) -> Flags:
    patterns = [period.replace("*", "%") for period in named]
    ids = int64s(query.db.value(_DATED, ["int8[]", "text[]"], [chunks.tolist(), patterns]))
    return within(chunks, np.sort(ids))
