"""Signing in to ``pg-graphrag serve``: by token, by password, and at an OpenID Connect provider that really runs."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from pg_graphrag.beside.serve.callers import Caller, Callers, Provider, _hash, password_hash, read_callers
from pg_graphrag.beside.serve.settings import Limits
from pg_graphrag.ground.errors import GraphRAGError

from tests.runtime.cluster import Database
from tests.serve.serving import OWNER, TOKEN, Serving, logged, serving

PASSWORD = "a long and quiet afternoon"
ANN = Caller("Ann")
KNOWN = Caller("Kim")


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    """URL of a provider that lets everybody in whom it is told of."""
    mock = pytest.importorskip("oidc_provider_mock")
    claims = {"email": "kim@example.com", "email_verified": True}
    users = [
        mock.User(sub="kim", claims=claims),
        mock.User(sub="kim-unverified", claims=claims | {"email_verified": False}),
        mock.User(sub="stranger", claims={"email": "stranger@example.com", "email_verified": True}),
    ]
    with mock.run_server_in_thread(user_claims=users) as server:
        yield f"http://localhost:{server.server_port}"


@pytest.fixture(scope="module")
def server(module_db: Database, provider: str) -> Iterator[Serving]:
    who = Callers(
        {_hash(TOKEN): OWNER},
        by_password={"Ann": (ANN, password_hash(PASSWORD))},
        provider=Provider("Acme", provider, "graphrag", "secret"),
        by_identity={"kim@example.com": KNOWN},
    )
    with serving(module_db.url, who, limits=Limits(failures=5)) as running:
        yield running


def cookies_of(client: httpx2.Client) -> dict[str, str]:
    return {cookie.name: cookie.value or "" for cookie in client.cookies.jar}


def test_the_ways_in_are_public_and_say_no_names(server: Serving) -> None:
    with server.client(None) as anybody:
        assert anybody.get("/api/sign-in").json() == {"password": True, "provider": "Acme"}


def test_a_password_begins_a_session(server: Serving) -> None:
    with server.client(None) as browser:
        reply = browser.post("/api/sign-in/password", json={"name": "Ann", "password": PASSWORD})
        assert reply.status_code == 200
        assert browser.get("/api/session").json()["name"] == "Ann"
        # Whatever changes something needs the session's token.
        assert browser.delete("/api/session").status_code == 403
        assert browser.delete("/api/session", headers={"x-csrf-token": reply.json()["csrf"]}).status_code == 200
        assert browser.get("/api/session").status_code == 401


def test_wrong_passwords_are_few_and_right_ones_many(module_db: Database) -> None:
    who = Callers({_hash(TOKEN): OWNER}, by_password={"Ann": (ANN, password_hash(PASSWORD))})
    with serving(module_db.url, who, limits=Limits(failures=3)) as server, server.client(None) as browser:
        right = {"name": "Ann", "password": PASSWORD}
        assert {browser.post("/api/sign-in/password", json=right).status_code for _ in range(5)} == {200}
        wrong = [
            browser.post("/api/sign-in/password", json={"name": name, "password": "wrong"}).status_code
            for name in ("Ann", "Bob", "Ann", "Ann")
        ]
        assert wrong == [401, 401, 401, 429]
        assert browser.post("/api/sign-in/password", json=right).status_code == 429


def test_pages_of_other_origins_sign_nobody_in(server: Serving) -> None:
    with server.client(None, headers={"origin": "http://evil.example"}) as page:
        assert page.post("/api/sign-in/password", json={"name": "Ann", "password": PASSWORD}).status_code == 403


def test_an_address_that_is_opened_twice_leaves_the_first_tab_as_it_is(server: Serving) -> None:
    with server.client() as browser:
        first = browser.post("/api/session").json()["csrf"]
        assert browser.post("/api/session").json()["csrf"] == first


def test_two_servers_on_one_host_have_a_cookie_each(server: Serving, module_db: Database) -> None:
    with serving(module_db.url) as other, server.client() as browser, other.client() as second:
        browser.post("/api/session")
        second.post("/api/session")
        assert set(cookies_of(browser)) != set(cookies_of(second))


def through_the_provider(server: Serving, person: str, place: str = "/manual/search?q=Ada") -> httpx2.Response:
    """What the person's browser gets in the end, at this server."""
    with server.client(None) as browser:
        begun = browser.get("/api/sign-in/provider/begin", params={"place": place})
        assert begun.status_code == 302
        asked = parse_qs(urlsplit(begun.headers["location"]).query)
        assert asked["code_challenge_method"] == ["S256"]
        assert asked["nonce"]
        back = httpx2.post(begun.headers["location"], data={"sub": person}).headers["location"]
        reply = browser.get(back.removeprefix(server.url))
        reply.extensions["session"] = browser.get("/api/session")
        # The same way back does not work again, and for nobody else.
        assert browser.get(back.removeprefix(server.url)).headers["location"] == "/#refused=failed"
        return reply


def test_whom_the_provider_vouches_for_is_in_and_where_he_was(server: Serving) -> None:
    reply = through_the_provider(server, "kim")
    assert (reply.status_code, reply.headers["location"]) == (303, "/#/manual/search?q=Ada")
    assert reply.extensions["session"].json()["name"] == "Kim"


@pytest.mark.parametrize("person", ["stranger", "kim-unverified"])
def test_whom_no_caller_names_is_not(server: Serving, person: str) -> None:
    reply = through_the_provider(server, person)
    assert reply.headers["location"] == "/#refused=unknown"
    assert reply.extensions["session"].status_code == 401


@pytest.mark.parametrize("query", ["", "?code=x", "?code=x&state=y", "?error=access_denied&state=y"])
def test_a_way_back_that_nobody_began_leads_nowhere(server: Serving, query: str) -> None:
    with server.client(None) as browser:
        assert browser.get(f"/api/sign-in/provider/back{query}").headers["location"] == "/#refused=failed"


def test_a_provider_that_is_away_is_no_error_of_the_page(module_db: Database) -> None:
    who = Callers({_hash(TOKEN): OWNER}, provider=Provider("Acme", "http://localhost:9", "graphrag", "secret"))
    with serving(module_db.url, who) as server, server.client(None) as browser:
        assert browser.get("/api/sign-in/provider/begin").headers["location"] == "/#refused=failed"


def test_the_file_of_callers_names_passwords_and_a_provider(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret\n")
    file = tmp_path / "callers.toml"
    file.write_text(
        f"""
        [[callers]]
        name = "Ann"
        role = "ann"
        password_argon2 = "{password_hash(PASSWORD)}"
        [[callers]]
        identity = "kim@example.com"
        role = "kim"
        [oidc]
        name = "Acme"
        issuer = "https://id.example.com/"
        client_id = "graphrag"
        client_secret_file = "secret"
        """
    )
    read = read_callers(file)
    assert read.provider == Provider("Acme", "https://id.example.com", "graphrag", "s3cret")
    assert "s3cret" not in repr(read)
    ann = read.by_name("Ann", PASSWORD)
    assert ann is not None and ann.role == "ann"
    assert read.by_name("Ann", "wrong") is None
    assert read.by_name("kim@example.com", PASSWORD) is None
    assert {caller.role for caller in read.all} == {"ann", "kim"}


ANNS = '[[callers]]\nname = "A"\nrole = "a"\n'
KIMS = '[[callers]]\nidentity = "a"\nrole = "a"\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f'{ANNS}password_argon2 = "sesame"', "no hash of argon2"),
        (f"{ANNS}password_argon2 = 7", "no hash of argon2"),
        ('[[callers]]\nrole = "a"\npassword_argon2 = "HASH"', "no name of its own"),
        (f'{ANNS}identity = "a"', "neither proxy nor provider"),
        (f'{KIMS}[oidc]\nissuer = "http://x.org"\nclient_id = "x"\nclient_secret_file = "y"', "not https"),
        (f'{KIMS}[oidc]\nissuer = "https://x.org"\nclient_id = "x"', "no client_secret_file"),
        (f'{KIMS}[oidc]\nissuer = "https://x.org"\nclient_id = "x"\nclient_secret_file = "gone"', "cannot be read"),
    ],
)
def test_what_the_file_may_not_say_is_refused(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "callers.toml"
    file.write_text(text.replace("HASH", password_hash(PASSWORD)))
    with pytest.raises(GraphRAGError, match=says):
        read_callers(file)


def test_neither_a_wrong_password_nor_a_wrong_name_is_let_in() -> None:
    who = Callers({}, by_password={"Ann": (ANN, password_hash(PASSWORD))})
    assert [who.by_name(name, "wrong") for name in ("Ann", "Bob")] == [None, None]


def test_other_cookies_of_the_host_disturb_no_session(server: Serving) -> None:
    with server.client() as client:
        client.post("/api/session")
        value = cookies_of(client)[server.cookie]
    with server.client(None, headers={"cookie": f'prefs={{"a":1}}; {server.cookie}={value}'}) as browser:
        assert browser.get("/api/session").status_code == 200


def test_a_proxys_own_authorization_is_no_token(server: Serving) -> None:
    with server.client(None, headers={"authorization": "Basic eDp5"}) as browser:
        right = {"name": "Ann", "password": PASSWORD}
        assert browser.post("/api/sign-in/password", json=right).status_code == 200
        assert browser.post("/api/session").status_code in (400, 403)


def test_behind_a_proxy_failures_are_counted_by_its_clients(module_db: Database) -> None:
    who = Callers({_hash(TOKEN): OWNER}, by_password={"Ann": (ANN, password_hash(PASSWORD))})
    origins = ("https://rag.example.com",)
    with (
        serving(module_db.url, who, origins=origins, limits=Limits(failures=2)) as server,
        server.client(None) as proxy,
    ):

        def sign_in(address: str, password: str) -> int:
            headers = {"host": "rag.example.com", "x-forwarded-for": f"203.0.113.9, {address}"}
            body = {"name": "Ann", "password": password}
            return proxy.post("/api/sign-in/password", json=body, headers=headers).status_code

        assert [sign_in("198.51.100.1", "wrong") for _ in range(3)] == [401, 401, 429]
        assert sign_in("198.51.100.2", PASSWORD) == 200
        # A network of IPv6 is one client.
        assert [sign_in(f"2001:db8::{number}", "wrong") for number in range(1, 4)] == [401, 401, 429]
        assert sign_in("2001:db8:0:1::1", PASSWORD) == 200
        # So is an address of IPv4 that is written as one.
        assert [sign_in(f"::ffff:198.51.100.{number}", "wrong") for number in (7, 7, 7, 8)] == [401, 401, 429, 401]
        # A proxy that passes on what its clients write there has a limit itself.
        assert any(sign_in(f"203.0.113.{number}", "wrong") == 429 for number in range(20))


def test_what_a_stranger_says_forges_no_line_of_the_log(server: Serving) -> None:
    with logged() as lines, server.client(None) as browser:
        browser.get("/api/sign-in/provider/back?error=a&error_description=x%0Aforged")
    assert not [line for text in lines for line in text.splitlines() if line.startswith("forged")]


def test_a_place_that_is_no_place_of_the_page_is_dropped(server: Serving) -> None:
    assert through_the_provider(server, "kim", "token=of-somebody").headers["location"] == "/#"


@pytest.mark.slow
def test_the_server_starts_without_the_extra_of_providers() -> None:
    blocked = "import sys; sys.modules.update(dict.fromkeys(('authlib', 'itsdangerous', 'joserfc')))"
    code = f"{blocked}; import pg_graphrag.beside.serve.app"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr == ""
