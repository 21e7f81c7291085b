"""Programs unpacked without root: they find what was unpacked with them, and what their caller gives them first."""

from __future__ import annotations

import importlib
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

SUPPORT = Path(__file__).resolve().parents[2] / "script/support"
NAMES = ("LD_LIBRARY_PATH", "RUBYLIB", "GEM_PATH", "PERL5LIB", "RPM_CONFIGDIR", "OPENSSL_CONF")
HOLDS = {
    "usr/lib/x86_64-linux-gnu/libruby.so.3": "",
    "usr/lib/x86_64-linux-gnu/ruby/3.3.0/rbconfig.rb": "",
    "usr/lib/ruby/3.3.0/set.rb": "",
    "usr/lib/ruby/vendor_ruby/hiera.rb": "",
    "usr/lib/ruby/gems/3.3.0/gems/racc/racc.rb": "",
    "usr/share/rubygems-integration/all/specifications/x": "",
    "usr/share/perl5/Dpkg.pm": "",
    "usr/share/perl/5.40/File/Find.pm": "",
    "etc/ssl/openssl.cnf": "",
    "usr/bin/shown": "#!/bin/sh\n" + "".join(f'echo "{name}=${name}"\n' for name in NAMES),
}


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(SUPPORT))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    return importlib.import_module("peers")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache in which a program has been unpacked already."""
    cache = tmp_path / "it's a cache"
    for name, text in HOLDS.items():
        path = cache / "peers" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    return cache


def shown(peers: Any, cache: Path, **environ: str) -> dict[str, str]:
    (folder,) = peers.obtain(cache, [peers.Peer("shown", "package")])
    done = subprocess.run([folder / "shown"], env=environ, capture_output=True, text=True, check=True)
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


def test_it_finds_what_was_unpacked_with_it(peers: Any, cache: Path) -> None:
    top = cache / "peers"
    found = shown(peers, cache)
    assert found["LD_LIBRARY_PATH"] == f"{top}/usr/lib/x86_64-linux-gnu"
    assert found["RUBYLIB"].split(":")[0] == f"{top}/usr/lib/x86_64-linux-gnu/ruby/3.3.0"
    assert {f"{top}/usr/lib/ruby/3.3.0", f"{top}/usr/lib/ruby/vendor_ruby"} <= set(found["RUBYLIB"].split(":"))
    assert found["GEM_PATH"] == f"{top}/usr/share/rubygems-integration/all:{top}/usr/lib/ruby/gems/3.3.0:"
    assert found["PERL5LIB"] == f"{top}/usr/share/perl5:{top}/usr/share/perl/5.40"
    assert found["OPENSSL_CONF"] == f"{top}/etc/ssl/openssl.cnf"
    assert found["RPM_CONFIGDIR"] == f"{top}/usr/lib/rpm"


def test_what_the_caller_gives_comes_first(peers: Any, cache: Path) -> None:
    alone = shown(peers, cache)
    given = {name: f"/own/{name}" for name in NAMES} | {"GEM_PATH": "/own/GEM_PATH:"}
    found = shown(peers, cache, **given)
    for name in ("LD_LIBRARY_PATH", "RUBYLIB", "GEM_PATH", "PERL5LIB"):
        assert found[name] == f"/own/{name}:{alone[name]}"
    for name in ("RPM_CONFIGDIR", "OPENSSL_CONF"):
        assert found[name] == given[name]
