"""Which provider of the target replaces each provider that the corpus names."""

from collections.abc import Mapping
from typing import Any

from pg_graphrag.beside.process.copying import Cursor
from pg_graphrag.beside.process.corpus_copy.source_corpus import SourceCorpus
from pg_graphrag.ground.errors import GraphRAGError


def renamed(options: Any, chosen: Mapping[str, str]) -> Any:
    """Return options with the names of providers replaced by the chosen ones."""
    if isinstance(options, dict):
        return {
            key: chosen.get(value, value) if key == "provider" and isinstance(value, str) else renamed(value, chosen)
            for key, value in options.items()
        }
    return [renamed(value, chosen) for value in options] if isinstance(options, list) else options


_COLUMNS = """
SELECT p.name, (p.kind, p.base_url, p.api_key_env, p.api_key_file, p.options)::text, p.kind, p.base_url, p.options::text,
       p.api_key_env IS NOT NULL OR p.api_key_file IS NOT NULL
  FROM graphrag.providers p
"""
_OF_CORPORA = f"""
{_COLUMNS} WHERE p.name IN (
    SELECT v.name #>> '{{}}'
      FROM graphrag.corpora c
     CROSS JOIN LATERAL pg_catalog.jsonb_path_query(c.options, '$.**.provider') AS v (name)
     WHERE c.id = ANY (%s)
) OR p.name = ANY (%s)
 ORDER BY p.name
"""
_BY_NAME = f"{_COLUMNS} WHERE p.name = ANY (%s)"


def choose_providers(
    reader: Cursor,
    writer: Cursor,
    corpus: SourceCorpus,
    replacements: Mapping[str, str],
    *,
    chosen_before: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the target's provider for each provider that the corpus names. A missing provider without a key is made.

    `chosen_before`: the choice that was made for the corpus earlier.
    """
    of_spaces = [space[2] for space in corpus.spaces]
    own = {row[0]: row[1:] for row in reader.execute(_OF_CORPORA.encode(), [corpus.ids, of_spaces]).fetchall()}
    if unknown := sorted(replacements.keys() - own.keys()):
        raise GraphRAGError(
            f'corpus "{corpus.corpora[0]["name"]}" names no provider "{unknown[0]}"',
            sqlstate="42704",
            hint=f"It names {', '.join(own)}." if own else "It names none: leave out --provider.",
        )
    replacements = {**{name: other for name, other in (chosen_before or {}).items() if name in own}, **replacements}
    chosen = {name: replacements.get(name, name) for name in own}
    others = {row[0]: row[1:] for row in writer.execute(_BY_NAME.encode(), [sorted(chosen.values())]).fetchall()}
    for name, (definition, kind, base_url, options, has_key) in own.items():
        other = chosen[name]
        if other in others:
            if others[other][1] != kind or (name not in replacements and others[other][0] != definition):
                raise GraphRAGError(
                    f'provider "{other}" of database "{writer.connection.info.dbname}" is not what "{name}" is in the source',
                    sqlstate="42710",
                    hint=f"--provider {name}={other} takes it all the same, --provider {name}=OTHER another of its kind.",
                )
        elif name in replacements or has_key:
            # A definition from elsewhere must not send a key or file of this server anywhere.
            raise GraphRAGError(
                f'database "{writer.connection.info.dbname}" has no provider "{other}"',
                sqlstate="42704",
                hint=f"Make it there: SELECT graphrag.set_provider('{other}', '{kind}', '{base_url}', …). Keys are its server's.",
            )
        else:
            writer.execute(
                "INSERT INTO graphrag.providers (name, kind, base_url, options) VALUES (%s, %s, %s, %s::jsonb)",
                [other, kind, base_url, options],
            )
    return chosen
