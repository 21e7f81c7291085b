"""No secret goes over plain http to a peer that leads to https (U12): that is found out before one is sent."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import requests

from configdb_sync.configdb.deadline import EndingAdapter
from configdb_sync.configdb.urls import led_to_tls, shown

REDIRECTS = frozenset({301, 302, 303, 307, 308})
_KEPT = frozenset({"accept", "accept-encoding", "connection", "user-agent"})


class LedAwayError(requests.exceptions.RequestException):
    """A plain http address leads to https elsewhere. Its text is fit to be shown; nothing secret was sent."""


class TlsRedirectAdapter(EndingAdapter):
    """An adapter that carries out requests for a plain http address over https, if that is where the address leads.

    The first request to a server is sent without body and secrets. If the answer leads to https on the same host, this
    request and all later ones go there; if it leads to https elsewhere, ``LedAwayError`` is raised.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._leads: dict[str, str] = {}

    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> requests.Response:
        """Send a request where it belongs."""
        server, path = _split(request.url or "")
        if not server.startswith("http://"):
            return super().send(request, *args, **options)
        if server not in self._leads:
            bare = _bare(request)
            answer = super().send(bare, *args, **options)
            self._leads[server] = _lead(bare.url or "", answer) or server
            if self._leads[server] == server and not _tells(request):
                return answer
            answer.close()
        if self._leads[server] != server:
            request = request.copy()
            request.url = self._leads[server] + path
        return super().send(request, *args, **options)


def _split(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    server = f"{parts.scheme}://{parts.netloc}"
    return server, url[len(server) :]


def _tells(request: requests.PreparedRequest) -> bool:
    """Whether a request carries something that another one for its address wouldn't."""
    return request.method != "GET" or bool(request.body) or any(name.lower() not in _KEPT for name in request.headers)


def _bare(request: requests.PreparedRequest) -> requests.PreparedRequest:
    headers = {name: value for name, value in request.headers.items() if name.lower() in _KEPT}
    return requests.Request("GET", request.url, headers=headers).prepare()


def _lead(url: str, answer: requests.Response) -> str | None:
    location = answer.headers.get("Location", "")
    if answer.status_code not in REDIRECTS or not location:
        return None
    found = led_to_tls(url, location)
    if found is None and answer.status_code != 308 and location.lower().startswith("https:"):
        answer.close()
        raise LedAwayError(f"it leads to {shown(location)[:120]}, which isn't followed: nothing secret was sent")
    return found
