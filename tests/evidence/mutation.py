"""For every change of the classifier a test fails. Run on demand: python -m tests.evidence.mutation [module].

Each mutant is one changed operator, constant, or row of the table. A mutant that no test notices is printed and
makes the exit code 1. Every mutant runs in a forked child, so that nothing is imported twice.
"""

import ast
import copy
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.evidence import variants

ROOT = Path(__file__).parents[2]
# The tests that must notice a change, the fast ones first.
TARGETS = {
    "evidence.trial.classify": ["test_precedence.py"],
    "evidence.suite.verdict": ["test_verdict.py", "test_sentences.py", "-k", "not mistyped"],
    "evidence.reading.rewards": ["test_rewards.py"],
    "evidence.trial.endpoint": ["test_endpoint.py", "test_classification.py", "-k", "not real_run"],
    "evidence.trial.binding": ["test_binding.py", "-k", "not real and not folder"],
    "evidence.trial.deadlines": ["test_stops.py", "test_classification.py", "-k", "not real_run and not 300"],
    "evidence.trial.own_failures": [
        "test_dead_gateway.py",
        "test_consequences.py",
        "test_classification.py",
        "-k",
        "not real_run and not 300",
    ],
    **{
        f"evidence.{name}": ["test_altered.py", "-k", "not real"]
        for name in ("trial.container_checks", "trial.reviewed_files", "trial.configured_checks", "harbor.identity")
    },
    "evidence.trial.course": ["test_course.py", "-k", "not real"],
    "evidence.trial.run_checks": ["test_unrecorded.py", "test_altered.py", "-k", "not real"],
    "evidence.reading.own_records": ["test_unrecorded.py", "test_altered.py", "-k", "not real"],
    "evidence.harbor.reported": ["test_altered.py", "test_unrecorded.py", "-k", "not real"],
    "runs.documents.ledger": ["gateway/test_ledger.py", "-k", "not single_byte and not structure"],
    "evidence.harbor.controls": ["harness/test_harbor_applied.py"],
}
# Of the table of wrong trials, the parts that these modules are about: the whole takes minutes for each mutant.
NARROWED = {
    "evidence.trial.deadlines": ("LIMITS", "STOPPED"),
    "evidence.trial.own_failures": ("TROUBLE", "LIMITS", "STOPPED", "UNGRADED"),
}
# None of these tests needs Django, whose set-up would take most of the time.
_WITHOUT = [word for plugin in ("django", "cacheprovider", "xdist") for word in ("-p", f"no:{plugin}")]
_SWAPS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
}


def mutants(source: str) -> Iterator[tuple[str, ast.Module]]:
    """Every mutant of a module, with where and what was changed."""
    tree = ast.parse(source)
    places = [node for node in ast.walk(tree) if hasattr(node, "lineno")]
    for index, node in enumerate(places):
        for name, change in _changes(node):
            mutant = copy.deepcopy(tree)
            change([found for found in ast.walk(mutant) if hasattr(found, "lineno")][index])
            yield f"line {node.lineno}: {name}: {ast.unparse(node)[:60]}", ast.fix_missing_locations(mutant)


def _changes(node: ast.AST) -> Iterator[tuple[str, Callable[[ast.AST], None]]]:
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            yield "comparison", lambda found, place=place, operator=operator: _swap(found, place, type(operator))
    elif isinstance(node, ast.BoolOp):
        yield "and/or", _swap_bool
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not", _drop_not
    elif isinstance(node, ast.IfExp | ast.If):
        yield "condition", _negate
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield "number", lambda found: setattr(found, "value", found.value + 1)  # type: ignore[attr-defined]
    elif isinstance(node, ast.Tuple) and _is_table(node):
        for place in range(len(node.elts)):
            yield f"row {place + 1} removed", lambda found, place=place: found.elts.pop(place)  # type: ignore[attr-defined]
        for place in range(len(node.elts) - 1):
            yield f"rows {place + 1} and {place + 2} swapped", lambda found, place=place: _swap_rows(found, place)


def _is_table(node: ast.Tuple) -> bool:
    return len(node.elts) > 5 and all(isinstance(row, ast.Tuple) for row in node.elts)


def _swap(found: ast.AST, place: int, operator: type[ast.cmpop]) -> None:
    found.ops[place] = _SWAPS[operator]()  # type: ignore[attr-defined]


def _swap_bool(found: ast.AST) -> None:
    found.op = ast.Or() if isinstance(found.op, ast.And) else ast.And()  # type: ignore[attr-defined]


def _drop_not(found: ast.AST) -> None:
    found.op, found.operand = ast.Not(), ast.UnaryOp(ast.Not(), found.operand)  # type: ignore[attr-defined]


def _negate(found: ast.AST) -> None:
    found.test = ast.UnaryOp(ast.Not(), found.test)  # type: ignore[attr-defined]


def _swap_rows(found: ast.AST, place: int) -> None:
    rows = found.elts  # type: ignore[attr-defined]
    rows[place], rows[place + 1] = rows[place + 1], rows[place]


def survives(name: str, tree: ast.Module, tests: list[str]) -> bool:
    """Whether the tests pass with the mutant in the module's place."""
    child = os.fork()
    if child == 0:
        os._exit(_run(name, tree, tests))
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 0


def _run(name: str, tree: ast.Module, tests: list[str]) -> int:
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    module = ModuleType(name)
    module.__file__ = str(ROOT / f"{name.replace('.', '/')}.py")
    sys.modules[name] = module
    try:
        exec(compile(tree, module.__file__, "exec"), module.__dict__)
        if name in NARROWED:
            variants.WRONG[:] = [variant for group in NARROWED[name] for variant in getattr(variants, group)]
        paths = [str(_path(word)) if word.endswith(".py") else word for word in tests]
        return int(pytest.main(["-c", os.devnull, f"--rootdir={ROOT}", "-x", "-q", *_WITHOUT, *paths]))
    except BaseException:
        return 1


def _path(name: str) -> Path:
    """A test file by its name in the rooms of these tests, else by its path."""
    return next((ROOT / "tests/evidence").rglob(name), ROOT / "tests" / name)


def main(wanted: list[str]) -> int:
    survivors = total = 0
    if unknown := set(wanted) - set(TARGETS):
        print(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(TARGETS)}", file=sys.stderr)
        return 2
    for name in wanted or TARGETS:
        tests = TARGETS[name]
        for what, tree in mutants((ROOT / f"{name.replace('.', '/')}.py").read_text()):
            total += 1
            if survives(name, tree, tests):
                survivors += 1
                print(f"survived: {name}: {what}", flush=True)
    print(f"{total} mutants, {survivors} survived")
    return 1 if survivors else 0


if __name__ == "__main__":
    # One data folder for all: a forked child leaves without tidying up its own.
    with tempfile.TemporaryDirectory(prefix="benchsite-mutation-") as data:
        os.environ["BENCHSITE_DATA"] = data
        code = main(sys.argv[1:])
    sys.exit(code)
