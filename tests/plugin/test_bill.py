"""F2: what is bundled is known by name, version and licence, or the build stops."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import bill
import pytest
from bill import BillError, Bundled, Runtime

METADATA = "Metadata-Version: 2.1\nName: {}\nVersion: 1.2\n{}\n"


def wheel(vendor: Path, name: str, said: str, *texts: str) -> Path:
    info = vendor / f"{name}-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(METADATA.format(name, said))
    for text in texts:
        (info / text).parent.mkdir(exist_ok=True)
        (info / text).write_text("a licence")
    return info


@pytest.mark.parametrize(
    ("said", "licence"),
    [
        ("License-Expression: MIT OR Apache-2.0", "MIT OR Apache-2.0"),
        ("License: BSD-2-Clause", "BSD-2-Clause"),
        ("Classifier: License :: OSI Approved :: MIT License", "MIT License"),
        ("License: a whole\n        text\nClassifier: License :: OSI Approved :: BSD License", "BSD License"),
    ],
)
def test_a_package_says_its_licence_itself(said: str, licence: str, tmp_path: Path) -> None:
    info = wheel(tmp_path, "Some_Thing", said, "licenses/LICENSE.txt", "NOTICE", "RECORD")
    (found,) = bill.of_wheel(info)
    assert (found.name, found.version, found.licence, found.kind) == ("some-thing", "1.2", licence, "pypi")
    assert {text.name for text in found.texts} == {"LICENSE.txt", "NOTICE"}


def test_without_a_licence_or_its_text_nothing_is_built(tmp_path: Path) -> None:
    with pytest.raises(BillError, match="thing doesn't say under which licence"):
        list(bill.of_wheel(wheel(tmp_path / "a", "thing", "Summary: x")))
    wheel(tmp_path / "vendor/common", "thing", "License: MIT")
    with pytest.raises(BillError, match=r"thing 1\.2: there is no text"):
        bill.write(tmp_path, tmp_path / "nothing")


def test_libraries_beside_a_package_are_known_by_their_names(tmp_path: Path) -> None:
    info = wheel(tmp_path, "thing", "License: MIT", "LICENSE")
    libraries = tmp_path / "thing.libs"
    libraries.mkdir()
    (libraries / "libcrypto-3a0647ea.so.3").write_bytes(b"\x7fELF..OpenSSL 3.5.9 29 Sep 2026..")
    (libraries / "libssl-6a9b88ec.so.3").write_bytes(b"\x7fELF")
    (libraries / "libpq-e9b5c9ac.so.5.18").write_bytes(b"\x7fELF")
    (libraries / "libsasl2-84219a89.so.3.0.0").write_bytes(b"\x7fELF")
    (info / "sboms").mkdir()
    package = {"name": "cyrus-sasl-lib", "version": "2.1.26"}
    (info / "sboms/auditwheel.cdx.json").write_text(json.dumps({"components": [package]}))
    found = {one.name: one.version for one in bill.of_wheel(info)}
    assert found == {"thing": "1.2", "OpenSSL": "3.5.9", "libpq": "5.18", "Cyrus SASL": "2.1.26"}
    (libraries / "libnew-00000000.so.1").write_bytes(b"\x7fELF")
    with pytest.raises(BillError, match=r"libnew-00000000\.so\.1 is bundled"):
        list(bill.of_wheel(info))


def test_a_library_in_a_packages_own_code_has_the_version_that_the_package_says(tmp_path: Path) -> None:
    info = wheel(tmp_path, "cryptography", "License-Expression: Apache-2.0", "LICENSE")
    (info / "sboms").mkdir()
    parts = [{"name": "openssl", "version": "4.0.3"}, {"name": "unversioned"}]
    (info / "sboms/sbom.json").write_text(json.dumps({"components": parts}))
    assert {one.name: one.version for one in bill.of_wheel(info)} == {"cryptography": "1.2", "OpenSSL": "4.0.3"}


def runtime(folder: Path) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "lib/python3.13").mkdir(parents=True)
    (folder / "lib/python3.13/LICENSE.txt").write_text("Python's")
    return folder


def test_of_a_runtime_what_is_in_its_modules_and_not_the_systems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A portable CPython has OpenSSL in itself; a distribution's module is linked with the system's."""
    top = runtime(tmp_path / "runtime")
    (top / "lib/python3.13/_ssl.so").touch()
    said = Runtime("3.13.17", {"ssl": "OpenSSL 3.5.9 1 Jan 2026", "zlib": "1.3.2", "_lzma": "_lzma"})

    def found(linked: tuple[str, ...]) -> Mapping[str, Bundled]:
        monkeypatch.setattr(bill, "_linked", lambda _: linked)
        return {one.name: one for one in bill.of_runtime(top, said)}

    portable = found(("libc.so.6", "libm.so.6"))
    assert {name: one.version for name, one in portable.items()} == {
        "CPython": "3.13.17",
        "OpenSSL": "3.5.9",
        "zlib": "1.3.2",
        "XZ Utils": None,
    }
    assert {text.name for text in portable["CPython"].texts} == {"LICENSE.txt", "cpython.txt"}
    assert found(("libc.so.6", "libssl.so.3", "liblzma.so.5")).keys() == {"CPython", "zlib"}


def test_a_python_that_can_not_run_the_product_is_refused(tmp_path: Path) -> None:
    top = runtime(tmp_path / "runtime")
    python = top / "bin/python3"
    for text, said in (
        ("#!/bin/sh\necho first >&2\necho 'no such library' >&2\nexit 127\n", "doesn't run here: no such library"),
        ('#!/bin/sh\necho \'{"version": "3.13.1", "modules": {"zlib": "1"}}\'\n', "lacks .*: ssl, sqlite3"),
    ):
        python.write_text(text)
        python.chmod(0o755)
        with pytest.raises(BillError, match=said):
            bill.ask(python)
    assert {*bill.MODULES} <= bill.ask(Path(sys.executable)).modules.keys()


def test_every_native_library_has_its_text() -> None:
    for one in bill.NATIVES:
        assert one["texts"]
        assert one["libraries"]
        assert all((bill.NATIVE_TEXTS / name).stat().st_size for name in one["texts"])
    used = {name for one in bill.NATIVES for name in one["texts"]} | {"cpython.txt"}
    assert {path.name for path in bill.NATIVE_TEXTS.iterdir()} == used
