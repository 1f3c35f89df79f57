"""${message}

Revision ID: ${up_revision}
Revises: ${down_revision | comma,n}
"""

from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = ${repr(branch_labels)}
depends_on = ${repr(depends_on)}


def upgrade() -> None:
    """Bring the extension to the version that is installed on the server; nothing to do when it is there."""
    op.execute("ALTER EXTENSION pg_graphrag UPDATE")


def downgrade() -> None:
    """Stay: an extension has no way back to an older version, and the newer one serves the same data."""
