"""A small client of the page: keeps its cookie, sends what a browser would."""

from __future__ import annotations

import http.client
import json
import socket
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

PATIENCE = 60.0  # seconds for an answer


@dataclass(frozen=True)
class Answer:
    """What the server said."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        """The body, read as JSON."""
        return json.loads(self.body)

    @property
    def server_ms(self) -> float:
        """How long the server took, in milliseconds."""
        return float(self.headers["Server-Timing"].split("dur=")[1])


class Client:
    """One visitor."""

    def __init__(self, address: str, source: str = "") -> None:
        """``address``: as printed by ``dhpf web``; ``source``: the visitor's own, such as 127.0.0.2."""
        self.host = urlsplit(address).netloc
        self.source = (source, 0)
        self.cookie: str | None = None

    def send(
        self, method: str, path: str, content: object = None, headers: dict[str, str] | None = None
    ) -> Answer:
        """Send bytes as they are, anything else as JSON; the path is not tidied up."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        sent = {"Cookie": self.cookie} if self.cookie else {}
        connection = http.client.HTTPConnection(self.host, timeout=PATIENCE, source_address=self.source)
        try:
            given = None if content is None else body
            connection.request(method, path, given, {**sent, **(headers or {})})
            response = connection.getresponse()
            answer = Answer(response.status, response.headers, response.read())
        finally:
            connection.close()
        if fresh := answer.headers["Set-Cookie"]:
            self.cookie = fresh.split(";")[0]
        return answer

    def connect(self, sent: bytes = b"") -> socket.socket:
        """A connection of this visitor, on which some bytes were sent."""
        host, _, port = self.host.rpartition(":")
        connection = socket.create_connection((host, int(port)), PATIENCE, self.source)
        connection.sendall(sent)
        return connection

    def upload(self, side: str, data: bytes, name: str = "photo.jpg") -> Answer:
        """Send the bytes of a photo's file."""
        return self.send("PUT", f"/api/photos/{side}?name={name}", data)

    def match(self, photos: dict[str, Any], **more: object) -> Answer:
        """Match photos that the server described."""
        ids = {side: photo["id"] for side, photo in photos.items()}
        return self.send("POST", "/api/match", {**ids, **more})

    def sample(self, pair: str) -> dict[str, Any]:
        """Take a sample pair, which must succeed."""
        answer = self.send("POST", "/api/sample", {"pair": pair})
        if answer.status != 200:
            raise RuntimeError(f"{answer.status}: {answer.body[:200]!r}")
        described: dict[str, Any] = answer.json
        return described

    def matched_sample(self, pair: str) -> str:
        """Take and match a sample pair, which must succeed; the match's address."""
        answer = self.match(self.sample(pair))
        if answer.status != 200:
            raise RuntimeError(f"{answer.status}: {answer.body[:200]!r}")
        return f"/api/match/{answer.json['match']}"
