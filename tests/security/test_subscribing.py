"""`pg-graphrag subscribe` runs nothing that others have planted at either end."""

from tests.security.graph_traps import plant_names, planting, ran_as_others
from tests.sql.test_subscribe import Ends, ends

__all__ = ["ends"]


def test_operators_and_functions_in_the_search_path_are_not_called(ends: Ends) -> None:
    # Mallory plants operators of its types, too.
    ends.publisher.execute("CREATE EXTENSION age")
    with planting(ends.publisher) as at_publisher, planting(ends.node) as at_node:
        for mallory in (at_publisher, at_node):
            plant_names(mallory, "public")
            mallory.execute("RESET ROLE")
            mallory.execute(f"ALTER DATABASE {mallory.info.dbname} SET search_path = public, pg_catalog".encode())
        ends.subscribe("--tables", "shop.articles", "--corpus", "shop", "--attach", "--dry-run")
        # Again, with another table: then it compares what is there.
        for tables in ("shop.articles", 'shop.articles,shop."Odd"'):
            ends.subscribe("--tables", tables, "--corpus", "shop", "--attach")
        ends.subscribe("--undo")
        for end in (ends.publisher, ends.node):
            assert ran_as_others(end) == [], end.info.dbname
