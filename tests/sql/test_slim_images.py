"""The slim images of docker/Dockerfile, as roots that their own scripts make: how large they are, and that they work.

CloudNativePG's rules are those of its pages "Container Image Requirements", "PostgreSQL Configuration" and "Security" (1.30).
"""

import os
import re
import shutil
import socket
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from pg_graphrag.beside.serve.callers import token_hash

from tests.runtime.cluster import POSTGRES, PROJECT, Runtime

DOCKERFILE = (PROJECT / "docker/Dockerfile").read_text(encoding="utf-8")
STAGES = dict(re.findall(r"^FROM \S+ AS (\S+)\n(.*?)(?=^FROM |\Z)", DOCKERFILE, re.MULTILINE | re.DOTALL))
MANIFEST = {
    document["kind"]: document["spec"]
    for document in yaml.safe_load_all((PROJECT / "docker/kubernetes/pg-graphrag.yaml").read_text(encoding="utf-8"))
}
CLUSTER = MANIFEST["Cluster"]
# MB, by du. Of the server 340 are models and Python packages, and 145 Debian with Python, 55 PostgreSQL with ICU.
MOST = {"server": 700, "client": 300}

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or POSTGRES != "17", reason="roots of images are made as root, of PostgreSQL 17"
)


def test_cnpg_s_image_sets_nothing_that_its_operator_does() -> None:
    stage = STAGES["cnpg"]
    assert re.findall("^USER (.*)$", stage, re.MULTILINE) == ["26:26"]
    assert not re.findall("^(?:ENTRYPOINT|CMD|VOLUME|HEALTHCHECK|WORKDIR).*", stage, re.MULTILINE)
    variables = dict(
        pair.split("=", 1) for line in re.findall("^ENV (.*)$", stage, re.MULTILINE) for pair in line.split()
    )
    assert variables.keys() == {"PATH", "LANG"} and variables["LANG"].endswith(".UTF-8")
    # It begins with files alone: what `slim` comes from leaves no setting.
    assert "FROM slim AS cnpg" in DOCKERFILE and "FROM scratch AS slim" in DOCKERFILE
    assert not re.findall("^(?!COPY|#).+", STAGES["slim"], re.MULTILINE)


def test_the_tag_begins_with_the_version_of_postgresql() -> None:
    assert re.fullmatch(r"[\w./-]+:17([._-][\w.-]+)?", CLUSTER["imageName"])


def test_slim_roots_keep_what_the_extras_name() -> None:
    """slim-root has names of packages, as Debian's Python has no pyproject.toml to read."""
    script: dict[str, object] = {"__name__": "slim_root"}
    exec((PROJECT / "docker/slim-root").read_text(encoding="utf-8"), script)
    debian, python = script["DEBIAN"], script["PYTHON"]
    assert isinstance(debian, dict) and isinstance(python, dict)
    assert set(debian["server"]) - {"python3"} <= set((PROJECT / "docker/packages.txt").read_text().split())
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]

    def names(*parts: str) -> set[str]:
        return {re.split(r"[\s;\[<>=!~(]", line, maxsplit=1)[0] for part in parts for line in extras[part]}

    for part in ("server", "ja", "zh", "sql"):
        assert set(python[part]) == names(part), part
    assert set(python["client"]) == names("files", "serve", "oidc") | {"psycopg", "psycopg-binary"}


def slim(runtime: Runtime, folder: Path, *arguments: str) -> Path:
    """Make a copy of the server's root and slim it; /usr is hard-linked, since it is only removed from."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for source in runtime.root.iterdir():
        if source.name in ("srv", "proc", "sys", "complete"):
            (folder / source.name).mkdir()
        else:
            link = ["--link"] if source.name == "usr" else []
            subprocess.run(["cp", "--archive", *link, source, folder], check=True)
    shutil.copy(PROJECT / "docker/slim-root", folder / "slim-root")
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
    done = subprocess.run(
        ["chroot", folder, "/slim-root", *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (folder / "slim-root").unlink()
    return folder


@pytest.fixture(scope="module")
def server_root(runtime: Runtime) -> Iterator[Path]:
    """The files of the target `cnpg`."""
    root = slim(runtime, runtime.root.parent / "slim-server", "server", "zh", "sql")
    for command in re.findall(r"^RUN \[(.*)\]$", STAGES["cnpg"], re.MULTILINE):
        subprocess.run(["chroot", root, *re.findall('"(.*?)"', command)], check=True, capture_output=True)
    yield root
    shutil.rmtree(root)


@pytest.fixture(scope="module")
def client_root(runtime: Runtime) -> Iterator[Path]:
    """The files of the target `client`."""
    root = slim(runtime, runtime.root.parent / "slim-client", "client")
    yield root
    shutil.rmtree(root)


def megabytes(folder: Path) -> int:
    return int(subprocess.run(["du", "-sxm", folder], capture_output=True, text=True, check=True).stdout.split()[0])


@pytest.mark.slow
@needs_root
def test_slim_roots_are_small(server_root: Path, client_root: Path) -> None:
    assert megabytes(server_root) <= MOST["server"]
    assert megabytes(client_root) <= MOST["client"]


@pytest.mark.slow
@needs_root
def test_what_cloudnativepg_calls_is_in_its_path(server_root: Path) -> None:
    (path,) = re.findall(r"^ENV PATH=(\S+)", STAGES["cnpg"], re.MULTILINE)
    for program in ("initdb", "postgres", "pg_ctl", "pg_controldata", "pg_basebackup", "pg_rewind", "psql", "du"):
        assert any((server_root / folder.lstrip("/") / program).is_file() for folder in path.split(":")), program
    passwd = (server_root / "etc/passwd").read_text(encoding="ascii")
    assert re.search("^postgres:[^:]*:26:26:", passwd, re.MULTILINE)


# As the kubelet and the operator would have it, in a mount namespace of its own: roots that nobody writes, with these folders.
POD = """
set -eu
mount --bind "$server" "$server"
mount --bind "$client" "$client"
mount --rbind /proc "$server/proc"
mount --rbind /proc "$client/proc"
mkdir -p "$server/controller" "$server/var/lib/postgresql/data"
mount -o remount,bind,ro "$client"
for folder in controller run var/lib/postgresql/data dev/shm; do
    mount -t tmpfs -o mode=1777 pod "$server/$folder"
done
mount -o remount,bind,ro "$server"
mount -t tmpfs -o mode=1777 pod "$client/tmp"
mkdir -m 777 "$server/controller/run" "$server/controller/tmp"
cp callers.toml notes.html "$client/tmp"

inside() { chroot "$1" setpriv --reuid=26 --regid=26 --clear-groups env -i LANG=C.UTF-8 "${@:2}"; }
in_server() {
    inside "$server" PATH="$server_path" PGDATA=/var/lib/postgresql/data/pgdata PGHOST=/controller/run PGPORT="$port" \\
        TMPDIR=/controller/tmp "$@"
}
sql() { in_server psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --username=postgres "$@"; }
in_client() { inside "$client" PATH="$client_path" HOME=/tmp "$@"; }

in_server initdb --username postgres -D /var/lib/postgresql/data/pgdata $options > initdb.log < /dev/null
cat postgresql.conf >> "$server/var/lib/postgresql/data/pgdata/postgresql.conf"
# The end of this shell, process 1 of its namespace, ends all.
trap 'cat "$server/controller/log" >&2' EXIT
in_server pg_ctl start --wait --silent --log=/controller/log < /dev/null
sql --dbname=postgres --file=- <<< 'CREATE ROLE app LOGIN; CREATE DATABASE app OWNER app; CREATE DATABASE smoke'
sql --dbname=app < statements.sql > /dev/null
sql --dbname=app < example.sql > example.out
sql --dbname=app < cron.sql > cron.out
sql --dbname=app --tuples-only --no-align < languages.sql > languages.out
sql --dbname=smoke --echo-all < smoke.sql > smoke.out

in_client PG_GRAPHRAG_URL="postgresql://app@127.0.0.1:$port/app" pg-graphrag $serve > /dev/null &
for path in healthz readyz; do
    in_client python3 - "http://127.0.0.1:$pages/$path" < ask.py
done > probes.out
in_client python3 - "http://127.0.0.1:$pages/api/search" "$token" '{"query": "Kestrel", "top_k": 1}' < ask.py > found.json
in_client PG_GRAPHRAG_URL="postgresql://app@127.0.0.1:$port/app" pg-graphrag ingest /tmp/notes.html > ingest.out
in_client PG_GRAPHRAG_URL="postgresql://postgres@127.0.0.1:$port/app" pg-graphrag worker --once --log-json > worker.out
sql --dbname=app --tuples-only --no-align < notes.sql > notes.out
for module in chardet lxml.html mammoth openpyxl PIL pptx pypdfium2 yaml; do
    in_client python3 -c "import $module"
done
"""
ASK = """
import sys, time, urllib.request
url, *more = sys.argv[1:]
headers = {"Host": "pg-graphrag-serve:8765", "Content-Type": "application/json"}
if more:
    headers["Authorization"] = f"Bearer {more[0]}"
for left in reversed(range(60)):
    try:
        request = urllib.request.Request(url, more[1].encode() if more else None, headers)
        print(urllib.request.urlopen(request, timeout=10).read().decode())
        break
    except OSError:
        if not left:
            raise
        time.sleep(0.5)
"""
# The condition within 20 s: scheduled workers are at work, too.
WAIT = """
DO $$
BEGIN
    FOR attempt IN 1 .. 200 LOOP
        EXIT WHEN ({condition});
        PERFORM pg_sleep(0.1);
        COMMIT;
    END LOOP;
END
$$;
"""
SUCCEEDED = "SELECT count(DISTINCT jobid) FROM cron.job_run_details WHERE status = 'succeeded'"
CRON = f"{WAIT.format(condition=f'({SUCCEEDED}) = 2')}{SUCCEEDED};"
# Of Japanese the dictionary is left out.
STATES = """
    SELECT d.source_key, d.indexed_at IS NOT NULL, j.last_error
      FROM graphrag.documents d
           LEFT JOIN graphrag.jobs j ON j.document_id = d.id
     WHERE d.source_key IN ('de', 'ja', 'zh')
     ORDER BY 1
"""
LANGUAGES = f"""
INSERT INTO graphrag.documents (source_key, content) VALUES
    ('de', 'Das Deutsche Museum in München zeigt Maschinen. Oskar von Miller hat es gegründet.'),
    ('ja', '東京タワーは港区にある。内藤多仲が設計した。'),
    ('zh', '北京大学位于海淀区。蔡元培曾任校长。');
CALL graphrag.process_jobs();
{WAIT.format(condition=f"SELECT bool_and(s.indexed OR s.error IS NOT NULL) FROM ({STATES}) AS s(key, indexed, error)")}
{STATES};
SELECT documents FROM graphrag.embedding_engine();
"""


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def rows(text: str) -> list[str]:
    """Return the lines of tables, without their counts."""
    return [line.rstrip() for line in text.splitlines() if line.strip() and not re.fullmatch(r"\(\d+ rows?\)", line)]


@pytest.mark.slow
@needs_root
def test_a_pod_of_cloudnativepg_does_the_first_example_and_another_serves_it(
    server_root: Path, client_root: Path, tmp_path: Path
) -> None:
    """With the settings and statements of the manifest, as uid 26. The smoke test of `make installcheck` passes, too."""
    readme = (PROJECT / "README.md").read_text(encoding="utf-8").split("## Installation")[0]
    examples = re.findall("```sql\n(.*?)```", readme, re.DOTALL)[:3]
    expected = re.findall("```text\n(.*?)```", readme, re.DOTALL)
    initdb = CLUSTER["bootstrap"]["initdb"]
    port, pages, token = free_port(), free_port(), "a token of this test alone"
    settings = CLUSTER["postgresql"]["parameters"] | {
        "shared_preload_libraries": ",".join(CLUSTER["postgresql"]["shared_preload_libraries"]),
        "wal_level": "logical",
        "max_worker_processes": "32",
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": "/controller/run",
        "shared_buffers": "64MB",
        # OpenVINO, which has lost most of its files.
        "graphrag.embedding_engine": "float32",
    }
    (serve,) = MANIFEST["Deployment"]["template"]["spec"]["containers"]
    arguments = [argument for argument in serve["args"] if not argument.startswith(("--port", "--callers"))]
    files = {
        "postgresql.conf": "".join(f"{name} = '{value}'\n" for name, value in settings.items()),
        "statements.sql": ";\n".join([*initdb["postInitApplicationSQL"], ""]),
        "example.sql": "".join(examples),
        "smoke.sql": (PROJECT / "extension/sql/smoke.sql").read_text(encoding="utf-8"),
        "cron.sql": CRON,
        "languages.sql": LANGUAGES,
        "ask.py": ASK,
        "notes.sql": "SELECT indexed_at IS NOT NULL FROM graphrag.documents WHERE title = 'Notes'",
        "notes.html": "<title>Notes</title><p>The Heron launcher stands in Osaka.</p>",
        "callers.toml": f'[[callers]]\nname = "Ann"\nrole = "app"\ntoken_sha256 = "{token_hash(token)}"\n',
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    paths = {part: re.findall(r"^ENV PATH=(\S+)", STAGES[part], re.MULTILINE)[0] for part in ("cnpg", "client")}
    options = {
        "--encoding": initdb["encoding"],
        "--locale-provider": initdb["localeProvider"],
        "--builtin-locale": initdb["builtinLocale"],
        "--lc-collate": initdb["localeCollate"],
        "--lc-ctype": initdb["localeCType"],
    }
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "server": str(server_root),
        "client": str(client_root),
        "server_path": paths["cnpg"],
        "client_path": paths["client"],
        "port": str(port),
        "pages": str(pages),
        "token": token,
        "options": " ".join(["--data-checksums", *(f"{name}={value}" for name, value in options.items())]),
        "serve": " ".join([*arguments, f"--port={pages}", "--callers=/tmp/callers.toml"]),
    }
    done = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-c", POD],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert rows((tmp_path / "example.out").read_text()) == rows("".join(expected))
    assert (tmp_path / "cron.out").read_text().split()[2] == "2"
    german, japanese, _, chinese, engine = (tmp_path / "languages.out").read_text().splitlines()
    assert (german, chinese) == ("de|t|", "zh|t|")
    assert japanese.startswith("ja|f|") and "sudachidict_core" in japanese
    assert engine == "openvino float32"
    assert (tmp_path / "notes.out").read_text() == "t\n"
    assert (tmp_path / "smoke.out").read_text() == (PROJECT / "extension/expected/smoke.out").read_text()
    assert (tmp_path / "probes.out").read_text().split("\n")[:2] == ['{"status":"up"}', '{"status":"ready"}']
    assert "Kestrel" in (tmp_path / "found.json").read_text()
