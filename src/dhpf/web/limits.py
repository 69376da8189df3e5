"""What one person may ask of the page, and all of them together."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """How much is enough for photos and clicks, and too little to harm the machine."""

    upload_bytes: int = 32 * 2**20  # a photo's file; read_image bounds its pixels
    json_bytes: int = 64 * 2**10  # everything else that is sent
    body_seconds: float = 60.0  # for sending either
    points: int = 200
    jobs: int = 8  # worked on or waiting, of all sessions together; beyond, the answer is "busy"
    sessions: int = 64
    session_seconds: float = 3600.0  # without use
    kept_bytes: int = 2**30  # photos and matches of all sessions together
    connections: int = 128
