"""Create the extension.

Revision ID: 0001
Revises:
"""

from alembic import op

revision = "0001"
down_revision = None
branch_labels = ("pg_graphrag",)
depends_on = None


def upgrade() -> None:
    """Create the extension in the version installed on the server, or bring one that is already there up to it."""
    op.execute("CREATE EXTENSION IF NOT EXISTS pg_graphrag CASCADE")
    op.execute("ALTER EXTENSION pg_graphrag UPDATE")


def downgrade() -> None:
    """Remove the extension with all its data.

    vector, age and plpython3u stay, since other tables and functions may use them; so do the roles graphrag_*,
    which other databases may use.
    """
    op.execute("SELECT graphrag.uninstall()")
    op.execute("DROP EXTENSION pg_graphrag CASCADE")
    op.execute("DROP SCHEMA IF EXISTS graphrag")
