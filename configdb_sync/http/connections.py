"""Requests over HTTP, each of which ends in time (S05). Apart from ``transport``: not every command needs it, and its
libraries take long to load."""

from __future__ import annotations

import http.cookiejar
from pathlib import Path

import requests
import urllib3

from configdb_sync import tls_errors
from configdb_sync.errors import ConnectionLostError, TLSError, UnexpectedAnswerError
from configdb_sync.http import urls
from configdb_sync.http.adapters import DeadlineAdapter, LedAwayError, TlsRedirectAdapter
from configdb_sync.http.transport import HttpAnswer, HttpRequest, TransferLimits

_CHUNK = 256 * 1024


class HttpTransport:
    """One server at ``base``; each of at most ``workers`` threads keeps a connection to it.

    ``ca_file`` replaces the system's authorities; ``insecure`` turns verification off (U12: only by an explicit
    setting). ``any_name``: the certificate that ``ca_file`` verifies may have any name, since that file is the peer's
    own certificate. ``authority``: the option that names an authority, for errors. ``to_tls``: if an http address off
    loopback leads to https, requests go over https, and no token goes in clear (U12). Proxies are those of the
    environment (``https_proxy``, ``no_proxy``), never for loopback.
    """

    def __init__(
        self,
        base: str,
        *,
        limits: TransferLimits | None = None,
        workers: int = 4,
        ca_file: Path | None = None,
        insecure: bool = False,
        any_name: bool = False,
        authority: str,
        to_tls: bool = False,
    ) -> None:
        self._base = base
        self._authority = authority
        self._limits = limits or TransferLimits()
        self._session = requests.Session()
        self._session.cookies.set_policy(http.cookiejar.DefaultCookiePolicy(allowed_domains=[]))
        kind = TlsRedirectAdapter if to_tls and not urls.is_loopback(self._base) else DeadlineAdapter
        adapter = kind(self._limits.total, workers, any_name=any_name and ca_file is not None)
        self._session.mount("http://", adapter)
        self._session.mount("https://", adapter)
        verify: bool | str = str(ca_file) if ca_file is not None else not insecure
        self._options = self._session.merge_environment_settings(self._base, {}, True, verify, None)
        if urls.is_loopback(self._base):
            self._options["proxies"] = {}
        if insecure and ca_file is None:
            self._options["verify"] = False
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)

    @property
    def base(self) -> str:
        """The server's address without credentials."""
        return self._base

    def send(self, request: HttpRequest) -> HttpAnswer:
        """See ``Transport.send``."""
        made = requests.Request(
            request.method,
            self._base + request.path,
            headers={"Accept-Encoding": "identity", "User-Agent": "configdb-sync", **request.headers},
            data=request.body,
        )
        timeout = (self._limits.connect, self._limits.read)
        try:
            prepared = made.prepare()
            with self._session.send(prepared, timeout=timeout, allow_redirects=False, **self._options) as response:
                headers = {name.lower(): value for name, value in response.headers.items()}
                return HttpAnswer(response.status_code, headers, self._body(response))
        except requests.exceptions.SSLError as error:
            what, way_out = tls_errors.explain(error, self._authority)
            raise TLSError(f"{self._base}: {what}; nothing was sent", way_out=way_out) from None
        except LedAwayError as error:
            raise UnexpectedAnswerError(f"{self._base}: {error}", way_out="give the address that it leads to") from None
        except (requests.exceptions.InvalidURL, UnicodeError, requests.exceptions.InvalidHeader) as error:
            raise UnexpectedAnswerError(
                f"{self._base}: the request can't be made ({tls_errors.reason(error)})"
            ) from None
        except (requests.exceptions.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            raise ConnectionLostError(f"{self._base}: {tls_errors.reason(error)}") from None

    def _body(self, response: requests.Response) -> bytes:
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise UnexpectedAnswerError(f"{self._base} answered in an encoding that wasn't asked for")
        chunks: list[bytes] = []
        size = 0
        for chunk in response.iter_content(_CHUNK):
            size += len(chunk)
            if size > self._limits.answer:
                raise UnexpectedAnswerError(
                    f"{self._base} answered more than the {self._limits.answer} bytes that are read of it"
                )
            chunks.append(chunk)
        return b"".join(chunks)

    def close(self) -> None:
        """Close the kept connections."""
        self._session.close()
