"""Grades `config-merge`: the merged configuration, computed again from the verifier's own two files."""

import json
import os
import sys

# Isolated Python (-I) does not look beside the script by itself.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from grading import Wrong, read_input, read_json, run, same  # noqa: E402

Json = object


def expect(inputs: str) -> dict[str, Json]:
    """The merged configuration."""
    return merge(_load(inputs, "base.json"), _load(inputs, "site.json"))


def check(artifacts: str, answer: dict[str, Json]) -> None:
    """Raise Wrong unless `config.json` is exactly the merged configuration."""
    found = read_json(artifacts, "config.json")
    if not isinstance(found, dict):
        raise Wrong("config.json is not an object")
    wrong = sorted(key for key in {*found, *answer} if not _agrees(found, answer, key))
    if wrong:
        raise Wrong(f"config.json is not the merged configuration; look at {wrong[:10]}")


def merge(base: dict[str, Json], site: dict[str, Json]) -> dict[str, Json]:
    """The configuration of the site: `site` over `base`, objects key by key, a null of `site` removes."""
    result = dict(base)
    for key, value in site.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            below = result.get(key)
            result[key] = merge(below if isinstance(below, dict) else {}, value)
        else:
            result[key] = value
    return result


def _load(inputs: str, name: str) -> dict[str, Json]:
    loaded = json.loads(read_input(os.path.join(inputs, name)))
    if not isinstance(loaded, dict):
        raise TypeError(f"the bundle's own {name} is not an object")
    return loaded


def _agrees(found: dict[str, Json], expected: dict[str, Json], key: str) -> bool:
    return key in found and key in expected and same(found[key], expected[key])


if __name__ == "__main__":
    sys.exit(run(expect, check))
