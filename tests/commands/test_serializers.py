"""Each schema has one serializer, and the domain imports none of the faces that show its rows."""

import ast
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import runs.serializers
from benchsite.lib.serializing import SERIALIZERS, serializes
from tests.commands.schemas import names

ROOT = Path(__file__).parents[2]
FACES = {
    "benchsite": {path.stem for path in (ROOT / "benchsite").iterdir()} - {"lib"},
    "runs": {"admin", "apps", "management", "smoke", "web"},
    "evidence": {"admin", "apps", "management", "templatetags", "web"},
}


def rooms() -> dict[str, list[Path]]:
    """The files of each room: of every module or package right below a top package."""
    found: dict[str, list[Path]] = {}
    for top in FACES:
        for path in sorted((ROOT / top).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if "migrations" not in parts and parts[1] != "bundles":
                found.setdefault(f"{top}.{parts[1]}", []).append(path)
    return found


def imported(path: Path) -> Iterator[str]:
    """What a file imports at its top, within functions, and by name with ``import_module``."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom(module=str(module), level=0):
                yield from (f"{module}.{alias.name}" for alias in node.names)
            case ast.Call(func=ast.Attribute(attr="import_module"), args=[ast.Constant(value=str(module)), *_]):
                yield module


def is_face(module: str) -> bool:
    top, _, rest = f"{module}.".partition(".")
    return rest.partition(".")[0] in FACES.get(top, set())


DOMAIN = [room for room in rooms() if not is_face(room) and not room.endswith("__init__")]


def test_the_rooms_of_the_domain_are_found() -> None:
    assert {"benchsite.lib", "runs.services", "runs.serializers", "runs.engine", "evidence.register"} <= set(DOMAIN)
    assert is_face("runs.web.presenting") and is_face("benchsite.mcp") and not is_face("runs.services.access")


@pytest.mark.parametrize("room", DOMAIN)
def test_no_module_of_the_domain_imports_presentation(room: str) -> None:
    found = [(path.name, module) for path in rooms()[room] for module in imported(path) if is_face(module)]
    assert found == []


def test_every_schema_has_exactly_one_serializer() -> None:
    modules = [module.name for module in pkgutil.iter_modules(runs.serializers.__path__, "runs.serializers.")]
    for module in [*modules, "evidence.serializers", "benchsite.mcp.server"]:
        importlib.import_module(module)
    assert sorted(SERIALIZERS) == sorted(f"benchsite.{name.replace('.', '/')}" for name in names())


def test_no_schema_gets_a_second_serializer() -> None:
    with pytest.raises(ValueError, match="run_document"):
        serializes("benchsite.run/v1")(dict)


def test_no_other_module_writes_the_name_of_a_schema() -> None:
    """A document that somebody puts together by hand would drift from the one of its serializer."""
    documented = {f"benchsite.{name.replace('.', '/')}" for name in names()}
    found: dict[str, list[str]] = {}
    for paths in rooms().values():
        for path in paths:
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and node.value in documented:
                    found.setdefault(str(node.value), []).append(str(path.relative_to(ROOT)))
    assert set(found) == documented
    assert {schema: places for schema, places in found.items() if len(places) > 1} == {}
    allowed = (
        "benchsite/lib/serializing.py",
        "benchsite/mcp/server.py",
        "evidence/origin/",  # shared with the client package, which has no serializers
        "evidence/serializers.py",
        "runs/serializers/",
    )
    assert [place for [place] in found.values() if not place.startswith(allowed)] == []
