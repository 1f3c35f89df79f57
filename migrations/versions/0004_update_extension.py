"""Update the extension to the version installed on the server.

Revision ID: 0004
Revises: 0003
"""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Bring the extension up to the version installed on the server; nothing happens where it is."""
    op.execute("ALTER EXTENSION pg_graphrag UPDATE")


def downgrade() -> None:
    """Leave it as it is: an extension does not go back, and 0003 takes any version."""
