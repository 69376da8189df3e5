"""Bind, say where, serve until stopped."""

from __future__ import annotations

import errno
import os
import signal
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError
from .addresses import is_loopback

if TYPE_CHECKING:
    from ..matcher import Matcher
    from .guard import Hosts
    from .review import Review

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 7860


def serve(
    host: str = DEFAULT_HOST,
    port: int = DEFAULT_PORT,
    *,
    models: Sequence[str] = (),
    size: tuple[int, int] | int | None = None,
    device: str = "cpu",
    backbone: Path | None = None,
    allowed: Sequence[str] = (),
    review: Callable[[], Review] | None = None,
    loader: Callable[..., Matcher] | None = None,
    ready: Callable[[str], None] = print,
) -> None:
    """Serve the page until it is interrupted or terminated, which both raise ``KeyboardInterrupt``.

    Parameters
    ----------
    host, port
        Where to listen; port 0 takes a free one.
    models
        Names or head files to offer beside the bundled models, the first of them picked at first.
    size, device, backbone
        As for :func:`dhpf.load`; the backbone is that of the named models.
    allowed
        More names by which the page may be called, such as that of a proxy.
    review
        Opens annotations that are to be reviewed; the address is then that of their page.
    loader
        What loads a model, called as :func:`dhpf.load`, which it is by default.
    ready
        Called with the page's address, once it can be opened.
    """
    try:
        from .app import build_app
        from .connections import build_server
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("dhpf"):
            raise
        raise InputError(f"the page needs {error.name}: pip install 'dhpf[web]'") from None
    with listen(host, port) as listener:  # before the models, which take a while
        from ..matcher import load
        from .models import Models

        reviewed = None if review is None else review()
        offered = Models(models, size, device, backbone, loader or load)
        for name in models or (offered.default,):
            offered.matcher(name)  # an unknown name or a bad file shows now, not in the browser
        bound = listener.getsockname()[1]
        app = build_app(offered, hosts_for(host, allowed), cookie=f"dhpf-{bound}", review=reviewed)
        where = f"http://{f'[{host}]' if ':' in host else host}:{bound}"
        ready(where if review is None else f"{where}/review")
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            build_server(app).run(sockets=[listener])
        finally:
            signal.signal(signal.SIGTERM, before)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, or an error that says why there is none."""
    where = f"{host}, port {port}"
    try:
        family = socket.getaddrinfo(host, port)[0][0]
        return socket.create_server((host, port), family=family)  # who comes before the models waits
    except (socket.gaierror, UnicodeError):
        raise InputError(f"no such host: {host}; give one of this machine, such as 127.0.0.1") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise InputError(f"{where} is in use; give another with --port, or 0 for any free one") from None
        raise InputError(f"cannot listen on {where}: {os.strerror(error.errno or 0)}") from None


def hosts_for(host: str, allowed: Sequence[str]) -> Hosts:
    """The names by which a page that listens on ``host`` may be called."""
    from .guard import Hosts

    alone = is_loopback(host)
    names = {host, *allowed} if alone else {host, *allowed, socket.gethostname(), socket.getfqdn()}
    return Hosts(frozenset(name.lower() for name in names), any_address=not alone)
