"""What `make deb` packs: installed, used, upgraded and purged in a fresh Debian, as its user would."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from pg_graphrag import __version__

from tests.runtime.cluster import POSTGRES, PROJECT

DEBIAN = PROJECT / "extension/packaging/debian"
ENVIRONMENT = "PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=/root DEBIAN_FRONTEND=noninteractive".split()
SUITE = {"17": "trixie", "18": "sid"}[POSTGRES]
EXAMPLE = re.findall(
    r"```sql\n(.*?)```\n(?:```text\n(.*?)```)?", (PROJECT / "README.md").read_text(encoding="utf-8"), re.DOTALL
)


@pytest.mark.parametrize("service", ["worker", "serve"])
def test_a_service_has_a_user_and_an_example_of_its_own_and_no_rights(service: str) -> None:
    unit = (DEBIAN / f"pg-graphrag.pg-graphrag-{service}@.service").read_text(encoding="utf-8")
    user = f"pg-graphrag-{service}"
    assert f"\nUser={user}\n" in unit and f"u {user} " in (DEBIAN / "pg-graphrag.sysusers").read_text(encoding="utf-8")
    assert f"\nEnvironmentFile=/etc/pg-graphrag/{service}-%i.env\n" in unit
    assert {"CapabilityBoundingSet=", "NoNewPrivileges=yes", "ProtectSystem=strict"} <= set(unit.splitlines())
    assert f"ExecStart=/usr/bin/pg-graphrag {service} " in unit
    assert "PG_GRAPHRAG_URL=" in (DEBIAN / f"{service}.env").read_text(encoding="utf-8")


def make_deb(folder: Path, revision: int) -> None:
    settings = {"GRAPHRAG_REVISION": str(revision), "GRAPHRAG_POSTGRES": POSTGRES, "GRAPHRAG_COMPRESSOR": "gzip"}
    subprocess.run(["make", "-s", "deb", f"DIST={folder}"], cwd=PROJECT, check=True, env={**os.environ, **settings})


def inside(root: Path, *command: str, stdin: str = "") -> str:
    done = subprocess.run(
        ["chroot", root, "env", "-i", *ENVIRONMENT, *command], input=stdin, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def psql(root: Path, statements: str) -> str:
    command = ("runuser", "-u", "postgres", "--", "psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-d", "app")
    return inside(root, *command, stdin=statements)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Debian that has nothing of PostgreSQL."""
    # Where ./test works with bubblewrap or Docker: a chroot needs root.
    if os.getuid() != 0 or not shutil.which("mmdebstrap"):
        pytest.skip("a fresh Debian needs root and mmdebstrap")
    root = tmp_path_factory.mktemp("debian") / "root"
    command = ["mmdebstrap", "--quiet", "--variant=minbase", "--include=ca-certificates,systemd", SUITE, str(root)]
    subprocess.run([*command, '--aptopt=Acquire::Check-Valid-Until "false"'], check=True, stdin=subprocess.DEVNULL)
    # A chroot has no /proc. What embeds documents looks there for the processors.
    (root / "proc/cpuinfo").write_bytes(Path("/proc/cpuinfo").read_bytes())
    shutil.copy(Path("/etc/resolv.conf").resolve(), root / "etc/resolv.conf")
    return root


@pytest.mark.slow
def test_the_packages_are_installed_used_upgraded_and_purged(root: Path) -> None:
    for revision in (1, 2):
        make_deb(root / f"debs/{revision}", revision)
    inside(root, "apt-get", "-qq", "update")
    inside(root, "sh", "-c", "apt-get -qq -y --no-install-recommends install /debs/1/*.deb")
    inside(root, "pg_ctlcluster", POSTGRES, "main", "start")
    try:
        inside(root, "runuser", "-u", "postgres", "--", "createdb", "app")
        use(root)
        schedule(root)
        upgrade(root)
    finally:
        stop(root)
    purge(root)


def stop(root: Path) -> None:
    # pg_ctlcluster looks into /proc.
    command = f"/usr/lib/postgresql/{POSTGRES}/bin/pg_ctl stop -m immediate -D /var/lib/postgresql/{POSTGRES}/main"
    inside(root, "runuser", "-u", "postgres", "--", *command.split())


def use(root: Path) -> None:
    """The README's first example; then command, worker and units."""
    for statements, shown in EXAMPLE[:3]:
        printed = psql(root, f"SET client_min_messages = warning;\n{statements}")
        assert without_blanks(shown) in without_blanks(printed)
    assert psql(root, "\\pset tuples_only\nSELECT * FROM graphrag.health()").strip() == ""
    psql(root, 'CREATE ROLE "pg-graphrag-worker" LOGIN SUPERUSER')
    worker = ("runuser", "-u", "pg-graphrag-worker", "--", "pg-graphrag")
    inside(root, *worker, "worker", "--once", "--url", "postgresql:///app")
    assert "Bob Stone" in inside(
        root, *worker, "search", "--url", "postgresql:///app", "Who designed the Kestrel engine?"
    )
    for service in ("worker", "serve"):
        inside(root, "systemd-analyze", "verify", f"/usr/lib/systemd/system/pg-graphrag-{service}@.service")
        inside(
            root, "systemd-analyze", "security", "--offline=true", "--threshold=20", f"pg-graphrag-{service}@x.service"
        )


def schedule(root: Path) -> None:
    """The manual's lines on pg_cron, then the README's."""
    page = (PROJECT / "docs/install.md").read_text(encoding="utf-8")
    block = re.search(r"^## pg_cron\n.*?```sh\n(.*?)```", page, re.MULTILINE | re.DOTALL)
    assert block is not None
    command = block[1].replace("17", POSTGRES).replace("'postgres'", "'app'").replace("apt-get", "apt-get -qq -y")
    stop(root)
    inside(root, "sh", "-ec", command.replace("restart", "start"))
    (lines,) = (statements for statements, _ in EXAMPLE if "pg_cron" in statements)
    psql(root, f"{lines}INSERT INTO graphrag.documents (source_key, content) VALUES ('due', 'Ann Lee left Osaka.');")
    wait = "SELECT pending FROM graphrag.wait_indexed('default', '{due}', timeout => '60 seconds')"
    assert psql(root, f"\\pset tuples_only\n{wait}").strip() == "0"


def without_blanks(text: str) -> str:
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


def upgrade(root: Path) -> None:
    """A session goes on with the copy of the package that it has loaded."""
    command = "runuser -u postgres -- psql -Xqt -v ON_ERROR_STOP=1 -d app".split()
    with subprocess.Popen(
        ["chroot", root, "env", "-i", *ENVIRONMENT, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as session:
        assert session.stdin and session.stdout
        print("SELECT count(*) FROM graphrag.search('Kestrel', mode => 'bm25');", file=session.stdin, flush=True)
        assert session.stdout.readline().strip() == "2"
        inside(root, "sh", "-c", "apt-get -qq -y --no-install-recommends install /debs/2/*.deb")
        out, _ = session.communicate(
            "SELECT count(*) > 0 FROM graphrag.search('Who designed it?', mode => 'ppr');\n", 60
        )
        assert (session.returncode, out.strip()) == (0, "t")
    versions = inside(
        root, "dpkg-query", "--show", "--showformat=${Version}\n", "pg-graphrag", f"postgresql-{POSTGRES}-pg-graphrag"
    )
    assert re.findall(r"^(\S+?)-(\d)", versions, re.MULTILINE) == [(__version__, "2")] * 2
    assert "Bob Stone" in psql(
        root, "SELECT title FROM graphrag.search('Who designed the Kestrel engine?', top_k => 1)"
    )


def purge(root: Path) -> None:
    (root / "etc/pg-graphrag/worker-app.env").write_text("PG_GRAPHRAG_URL=postgresql:///app\n")
    inside(root, "sh", "-c", "apt-get -qq -y purge 'pg-graphrag*' 'postgresql-*-pg-graphrag'")
    left = [path for path in root.rglob("*pg*graphrag*") if not path.is_relative_to(root / "debs")]
    left = [path for path in left if not path.is_relative_to(root / "var/lib/postgresql")]
    assert left == []
