"""Whether an override has any effect (U17, U25)."""

from __future__ import annotations

from typing import Any

from configdb_sync.configdb_server.overrides import LevelDigests, key_effects

NODE = {"n": "1"}


def effect(layer: LevelDigests, *others: LevelDigests) -> tuple[Any, ...]:
    return tuple(key_effects(layer, others)["k"].values())


def layer(depth: int, values: dict[str, str] | None = None, **overrides: str) -> LevelDigests:
    return LevelDigests(depth, values or {}, overrides)


def test_an_override_of_the_node_has_effect() -> None:
    assert effect(layer(1, {"k": "v"}, k="o")) == ("full", None, 0)
    assert effect(layer(1, NODE, k="o"), layer(1, {"k": "v"})) == ("full", None, 0)


def test_one_that_equals_what_it_covers_has_none() -> None:
    assert effect(layer(1, {"k": "o"}, k="o")) == ("none", "equal", 0)
    assert effect(layer(1, NODE, k="o"), layer(0, {"k": "v"}, k="o")) == ("none", "equal", 0)
    assert effect(layer(0, {"k": "o"}, k="o"), layer(1, {"k": "v"})) == ("none", "equal", 1)


def test_levels_between_may_cover_it_and_are_not_guessed() -> None:
    assert effect(layer(2, NODE, k="o"), layer(0, {"k": "o"}), layer(1, {"k": "v"})) == ("full", None, 0)


def test_deeper_documents_that_have_the_key_hide_it() -> None:
    root = layer(0, k="o")
    assert effect(root, layer(1, {"k": "v"}), layer(1, NODE, k="x")) == ("none", "hidden", 2)
    assert effect(root, layer(1, {"k": "v"}), layer(1, NODE)) == ("partial", "hidden", 1)
    assert effect(root, layer(1, NODE)) == ("full", None, 0)
