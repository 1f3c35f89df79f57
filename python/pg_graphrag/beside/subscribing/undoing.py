"""How a node ceases to subscribe. Its tables stay, with their rows and documents."""

from pg_graphrag.beside.subscribing.node import NODE, PUBLISHER, Names, Step, literal
from pg_graphrag.beside.subscribing.publisher import Connection


def at_node(node: Connection, names: Names, publisher_is_gone: bool = False) -> list[Step]:
    """Return what drops the subscription, and with it the slot; where the publisher does not answer, the subscription alone."""
    found = node.execute(
        "SELECT FROM pg_catalog.pg_subscription s JOIN pg_catalog.pg_database d ON d.oid = s.subdbid"
        " WHERE d.datname = pg_catalog.current_database() AND s.subname = %s",
        [names.name],
    ).fetchone()
    if found is None:
        return []
    dropped = Step(NODE, f"DROP SUBSCRIPTION {names.name}")
    if not publisher_is_gone:
        return [dropped]
    return [
        Step(NODE, f"ALTER SUBSCRIPTION {names.name} DISABLE"),
        Step(NODE, f"ALTER SUBSCRIPTION {names.name} SET (slot_name = NONE)"),
        dropped,
    ]


def at_publisher(publisher: Connection, names: Names) -> list[Step]:
    """Return what drops slot and publication, as far as they are there."""
    steps = []
    if (
        publisher.execute("SELECT FROM pg_catalog.pg_replication_slots WHERE slot_name = %s", [names.slot]).fetchone()
        is not None
    ):
        steps.append(Step(PUBLISHER, f"SELECT pg_catalog.pg_drop_replication_slot({literal(names.slot)})"))
    if (
        publisher.execute("SELECT FROM pg_catalog.pg_publication WHERE pubname = %s", [names.name]).fetchone()
        is not None
    ):
        steps.append(Step(PUBLISHER, f"DROP PUBLICATION {names.name}"))
    return steps
