"""Every answer that a test sees is checked by what the service says of itself (T13)."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from configdb_sync.tenants import openapi

BY_SERVER = frozenset({405, 411, 414, 417, 431})
"""What the server answers by itself, or to a method that isn't there."""
_TYPES = {"environment": "[0-9]+", "dataSource": ".+", "run": "[^/]+", "tenantId": "[^/]+"}


@cache
def _templates() -> list[tuple[re.Pattern[str], str]]:
    # Those with most words of their own first: a data source's name may hold anything.
    paths = sorted(openapi.CALLS, key=lambda path: -len(path))
    made = [(re.sub(r"\\\{(\w+)\\\}", lambda found: _TYPES[found[1]], re.escape(path)), path) for path in paths]
    return [(re.compile(pattern), path) for pattern, path in made]


def path_of(target: str) -> str | None:
    """Return the path of the description that a request target is for."""
    plain = target.partition("?")[0]
    return next((path for pattern, path in _templates() if pattern.fullmatch(plain)), None)


@cache
def _validator(schema: str) -> Draft202012Validator:
    components = {"components": openapi.openapi()["components"]}
    return Draft202012Validator({**json.loads(schema), **components})


def faults(schema: dict[str, Any], value: object) -> list[str]:
    """Return what of a value isn't as a schema says."""
    return [f"{one.json_path}: {one.message[:300]}" for one in _validator(json.dumps(schema)).iter_errors(value)]


def check(method: str, target: str, status: int, kind: str, body: bytes) -> None:
    """Raise ``AssertionError`` for an answer that isn't as OpenAPI describes it."""
    path = path_of(target)
    operation = openapi.openapi()["paths"].get(path, {}).get(method.lower())
    elsewhere = status == 404 and path not in openapi.calls(public=True)
    if operation is None or status in BY_SERVER or elsewhere:
        if status >= 400 and kind == "application/json" and method != "HEAD":
            told = faults({"$ref": "#/components/schemas/Error"}, json.loads(body))
            assert not told, (method, target, status, told)
        return
    assert str(status) in operation["responses"], f"{method} {path} has no answer {status}"
    content = operation["responses"][str(status)].get("content", {})
    if not content:
        assert not body, f"{method} {path} {status} has a body: {body[:200]!r}"
        return
    media = kind.partition(";")[0]
    assert media in content, f"{method} {path} {status} is no {media!r}"
    if media != "application/json":
        return
    schema = content[media]["schema"]
    if "fields=" not in target and "anyOf" in schema:
        # Only who chose fields gets fewer.
        schema = {"anyOf": [one for one in schema["anyOf"] if not one["$ref"].endswith("Fields")]}
    told = faults(schema, json.loads(body))
    assert not told, (method, target, status, told, body[:500])
