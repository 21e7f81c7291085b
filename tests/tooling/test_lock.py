"""The lock files: what the project asks for, whole, pinned, and free of one machine's settings."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
RUN = "requirements.txt"
DEV = "requirements-dev.txt"


def locked(name: str) -> dict[str, str]:
    pins = re.findall(r"^([\w.-]+)==([^\s;\\]+)", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {canonicalize_name(package): version for package, version in pins}


def asked(*extras: str) -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    texts = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    texts += [text for extra in extras for text in project["project"]["optional-dependencies"][extra]]
    return [Requirement(text) for text in texts]


@pytest.mark.parametrize(("name", "extras"), [(RUN, ()), (DEV, ("test", "lint"))])
def test_all_that_is_asked_for_is_locked(name: str, extras: tuple[str, ...]) -> None:
    pins = locked(name)
    missing = [
        str(requirement)
        for requirement in asked(*extras)
        if not requirement.specifier.contains(pins.get(canonicalize_name(requirement.name), "0"), prereleases=True)
    ]
    assert not missing, "run script/lock"


def test_development_adds_to_what_runs() -> None:
    assert locked(RUN).items() <= locked(DEV).items()


@pytest.mark.parametrize("name", [RUN, DEV])
def test_nothing_but_pins_with_hashes(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    entries = re.split(r"\n(?=\S)", re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE).strip())
    pattern = re.compile(r"[\w.-]+==\S+(?: ; [^\\]+)?(?: \\\n    --hash=sha256:[0-9a-f]{64})+")
    assert [entry for entry in entries if not pattern.fullmatch(entry.strip())] == []
