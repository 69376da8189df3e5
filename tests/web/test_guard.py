"""Who may ask: sessions are apart, foreign pages are refused, no path leads out of the static files."""

from __future__ import annotations

import pytest
from benchmarks.web_client import Client

from dhpf.web.guard import Hosts
from tests.web.conftest import Serve


def test_sessions_are_apart(client: Client) -> None:
    """Neither another visitor nor one without a cookie, or with an invented one, gets at anything of A's."""
    photos = client.sample("cheetahs")
    where = f"/api/match/{client.match(photos).json['match']}"
    other, nobody, forger = (Client(f"http://{client.host}") for _ in range(3))
    other.sample("cats")
    forger.cookie = f"{str(client.cookie).split('=')[0]}={'x' * 43}"
    for visitor in (other, nobody, forger):
        cookie = visitor.cookie
        for method, path, content in (
            ("GET", f"/api/photos/{photos['source']['id']}", None),
            ("POST", f"{where}/points", {"points": [[1, 1]]}),
            ("POST", f"{where}/heat", {"points": [[1, 1]]}),
            ("POST", f"{where}/picture", {"view": "lines", "points": []}),
            ("GET", f"{where}/warped", None),
            ("GET", f"{where}/suggestions", None),
        ):
            assert visitor.send(method, path, content).status in (404, 409), path
        assert visitor.match(photos).status in (404, 409)
        assert str(photos["source"]["id"]) not in visitor.send("GET", "/api/setup").body.decode()
        assert visitor.cookie == cookie
    assert forger.sample("cats") and forger.cookie != f"{str(client.cookie).split('=')[0]}={'x' * 43}"
    assert client.send("POST", f"{where}/points", {"points": [[1, 1]]}).status == 200


def test_cookies_cannot_be_guessed_nor_read_by_scripts(client: Client) -> None:
    cookies = set()
    for _ in range(3):
        answer = Client(f"http://{client.host}").send("POST", "/api/sample", {"pair": "cats"})
        cookie, *rules = (part.strip().lower() for part in answer.headers["Set-Cookie"].split(";"))
        assert {"httponly", "samesite=strict", "path=/"} <= set(rules)
        cookies.add(cookie)
        assert len(cookie.split("=")[1]) == 43  # 32 random bytes
    assert len(cookies) == 3


@pytest.mark.parametrize(
    "path",
    [
        "/../server.py",
        "/static/../../server.py",
        "/page.js/../../server.py",
        "/%2e%2e/server.py",
        "/..%2fserver.py",
        "//etc/passwd",
        "/etc/passwd",
        "/static/page.js",
        "/page.js%00",
        "/api/samples/..%2fcats",
        "/api/photos/..%2f..%2fserver.py",
    ],
)
def test_no_path_leads_out(client: Client, path: str) -> None:
    client.sample("cats")
    answer = client.send("GET", path)
    assert answer.status == 404
    assert list(answer.json) == ["error"]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/page.css", "text/css; charset=utf-8"),
        ("/page.js", "text/javascript; charset=utf-8"),
        ("/drawing.js", "text/javascript; charset=utf-8"),
        ("/icon.svg", "image/svg+xml"),
    ],
)
def test_static_files_and_careful_headers(client: Client, path: str, kind: str) -> None:
    answer = client.send("GET", path)
    assert (answer.status, answer.headers["Content-Type"]) == (200, kind)
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "script-src 'self';" in policy and "unsafe" not in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    text = answer.body.decode().replace("http://www.w3.org/2000/svg", "")
    assert "http" not in text  # nothing from elsewhere
    assert "<style" not in text and "style=" not in text and "onclick=" not in text


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "192.168.0.7", "", "[::1", "0.0.0.0"]
)
def test_foreign_names_are_refused(client: Client, host: str) -> None:
    for path in ("/", "/api/setup"):
        answer = client.send("GET", path, headers={"Host": host})
        assert answer.status == 403
        assert "this page is not called" in answer.json["error"]


@pytest.mark.parametrize("host", ["localhost", "localhost:9000", "127.0.0.1", "[::1]:7860", "LOCALHOST"])
def test_names_of_this_machine(client: Client, host: str) -> None:
    assert client.send("GET", "/api/setup", headers={"Host": host}).status == 200


def test_names_that_were_allowed(serve: Serve) -> None:
    client = Client(serve(hosts=Hosts(frozenset({"photos.example"}), any_address=True)))
    for host, status in (("photos.example", 200), ("192.168.0.7:80", 200), ("evil.example", 403)):
        assert client.send("GET", "/", headers={"Host": host}).status == status


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "http://[", ""])
def test_other_pages_cannot_ask_for_anything(client: Client, origin: str) -> None:
    for method, path in (("POST", "/api/sample"), ("PUT", "/api/photos/source"), ("DELETE", "/api/session")):
        answer = client.send(method, path, {"pair": "cats"}, {"Origin": origin})
        assert (answer.status, answer.headers["Set-Cookie"]) == (403, None)
        assert "another site's page" in answer.json["error"]
    assert (
        client.send("POST", "/api/sample", {"pair": "cats"}, {"Origin": f"http://{client.host}"}).status
        == 200
    )


def test_wrong_methods(client: Client) -> None:
    for method, path in (("POST", "/"), ("GET", "/api/match"), ("TRACE", "/"), ("OPTIONS", "/api/sample")):
        answer = client.send(method, path)
        assert (answer.status, answer.json) == (405, {"error": "this cannot be asked that way"})
