"""Ends a node's subscription: drops what subscribing made. The tables stay, with their rows and documents."""

from pg_graphrag.beside.subscribing.plan import NODE, PUBLISHER, Names, Plan, Step, publication_mark, subscribed_slot
from pg_graphrag.beside.subscribing.publisher import Connection


def at_node(node: Connection, names: Names, publisher_is_gone: bool = False) -> list[Step]:
    """Return what drops the subscription, and with it the slot; where the publisher does not answer, the subscription alone."""
    slot = subscribed_slot(node, names)
    if slot not in (names.slot, ""):
        return []
    dropped = Step(NODE, f"DROP SUBSCRIPTION {names.name}")
    if not publisher_is_gone:
        return [dropped]
    return [
        Step(NODE, f"ALTER SUBSCRIPTION {names.name} DISABLE"),
        Step(NODE, f"ALTER SUBSCRIPTION {names.name} SET (slot_name = NONE)"),
        dropped,
    ]


def at_publisher(publisher: Connection, names: Names, drops_subscription: bool) -> Plan:
    """Return the steps that drop publication and slot if they are this node's, and notes on those that stay.

    `drops_subscription`: an earlier step drops the slot with the subscription.
    """
    plan = Plan()
    mark = publication_mark(publisher, names)
    publication = f"DROP PUBLICATION {names.name}"
    slot_rows = publisher.execute(
        "SELECT FROM pg_catalog.pg_replication_slots WHERE slot_name = %s AND database = pg_catalog.current_database()",
        [names.slot],
    ).fetchall()
    steps = [names.drop_slot] if slot_rows and not drops_subscription else []
    steps += [publication] if mark is not None else []
    if mark == names.mark:
        plan.steps += [Step(PUBLISHER, step) for step in steps]
    else:
        plan.notes += [f"stays at the publisher, maybe somebody else's: {step};" for step in steps]
    return plan
