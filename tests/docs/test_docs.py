"""The documents say what the code does: every code, setting, command, exit code, pin and link is held against it."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchsite.lib.serializing import Exit
from evidence.harbor.applied import config_differences, lock_differences, trial_lock_differences
from evidence.models import READABLE, ArtifactState
from runs.checks import readiness
from runs.checks.worker import OPTIONAL_LIMITS, REQUIRED_LIMITS
from runs.engine.assets.harness_lock import REVIEWED_SOURCE_COMMIT
from runs.engine.assets.wheels import read_requirements
from runs.engine.network import egress, gateway
from runs.engine.preflight import capabilities
from runs.models import Cleanup
from runs.outcomes.buckets import Verdict
from runs.outcomes.codes import BADGES, CODES
from runs.services.access import Role

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FIXTURES = ROOT / "tests/fixtures/harbor"
PACKAGES = ("benchsite", "runs", "evidence")
PAGES = sorted([*DOCS.glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def cells(name: str) -> list[list[str]]:
    """Every table row of a page, as its cells."""
    rows = re.findall(r"^\|(.*)\|$", page(name), re.M)
    return [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row)] for row in rows]


def quoted(text: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", text))


def sources() -> Iterator[tuple[Path, str]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if "migrations" not in path.parts and "bundles" not in path.relative_to(ROOT).parts[1:2]:
                yield path, path.read_text(encoding="utf-8")


def scripts() -> Iterator[str]:
    for path in [*(ROOT / "script").iterdir(), ROOT / ".ci/run"]:
        yield path.read_text(encoding="utf-8")


def entries() -> set[str]:
    """The codes that have a row of their own in the troubleshooting page: what is quoted in its first cell."""
    return set().union(*(quoted(row[0]) for row in cells("troubleshooting.md")))


# -- codes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CODES)
def test_each_classification_code_stands_in_the_table_with_its_own_title(name: str) -> None:
    rows = [row for row in cells("evidence.md") if row[0] == f"`{name}`"]
    assert [row[2] for row in rows] == [CODES[name].title]


@pytest.mark.parametrize("name", CODES)
def test_each_classification_code_has_an_entry_that_says_what_to_do(name: str) -> None:
    rows = [row for row in cells("troubleshooting.md") if name in quoted(row[0])]
    assert len(rows) == 1
    assert all(rows[0])


def test_no_table_of_results_names_a_code_that_does_not_exist() -> None:
    classes = {code.klass.value for code in CODES.values()} | {"passed", "failed"}
    named = {row[0].strip("`") for row in cells("evidence.md") if re.fullmatch(r"`[a-z_]+\.[a-z0-9_]+`", row[0])}
    assert {name for name in named if name.split(".")[0] in classes} == set(CODES)


@pytest.mark.parametrize("name", BADGES)
def test_each_badge_stands_there_with_its_own_sentence(name: str) -> None:
    assert [f"`{name}`", BADGES[name]] in cells("evidence.md")


def literal_codes(*prefixes: str, within: str) -> set[str]:
    """Codes of these classes that stand as texts in the sources below `within`."""
    pattern = re.compile(rf'"((?:{"|".join(prefixes)})\.[a-z0-9_]+)"')
    return {
        found
        for path, text in sources()
        if path.relative_to(ROOT).as_posix().startswith(within)
        for found in pattern.findall(text)
        if not found.endswith((".json", ".lock", ".urls"))
    }


def refusal_codes() -> set[str]:
    """Codes with which a preview, a preflight, a preparation, a gateway or a probe refuses."""
    return {
        *literal_codes("assets", "image", within="runs/engine/assets/"),
        *{
            f"harness.{name}"
            for name in ("lock_changed", "lock_schema", "python_too_old", "build_failed", "unreadable")
        },
        *literal_codes(
            "worker", "bundle", "image", "engine", "harness", within="runs/engine/preflight/run_preflight.py"
        ),
        *literal_codes("worker", within="runs/engine/preflight/host_preflight.py"),
        *literal_codes(
            "worker", "bundle", "endpoint", "profile", "engine", "harness", within="runs/services/preview_checks.py"
        ),
        *literal_codes("worker", "engine", "harness", within="runs/checks/worker.py"),
        *{"worker.too_little_cpus", "worker.too_little_memory"},
        *literal_codes("preview", "input", within="runs/services/refusals.py"),
        *literal_codes("credential", within="runs/engine/host/credentials.py"),
        *literal_codes("egress", within="runs/engine/"),
        *literal_codes("mcp", "evidence", "database", within="benchsite/"),
        *(f"gateway.{reason}" for reason in gateway._FAILURES),
        *(f"limit.{name}_not_enforced" for name, *_ in capabilities._RULES),
        *egress._ISOLATED.values(),
        *readiness.CODES,
        *literal_codes("endpoint_test", within="runs/"),
        *readiness._UNPROVED.values(),
    } - PASSED_CHECKS


# Codes of checks that hold; nobody has to look them up.
PASSED_CHECKS = {
    "harness.intact", "sandbox.made", "sandbox.own_uid", "harness.interpreter_locked", "worker.same", "worker.linux",
    "worker.locks_recorded", "worker.large_enough", "engine.reachable", "engine.subnets_free",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(refusal_codes()))
def test_each_refusal_has_an_entry(name: str) -> None:
    assert name in entries()


def test_the_refusals_are_really_found_in_the_code() -> None:
    assert {"assets.busy", "image.needs_root", "preview.changed", "worker.no_report", "egress.ipv6"} <= refusal_codes()
    assert len(refusal_codes()) > 70


def test_each_class_of_refusal_with_a_code_of_its_own_has_an_entry() -> None:
    found = {code for _, text in sources() for code in codes_of_classes(text)}
    assert "run.host_busy" in found
    assert found <= entries()


def codes_of_classes(text: str) -> Iterator[str]:
    """The values of `code = "…"` in class bodies."""
    for node in ast.walk(ast.parse(text)):
        for statement in node.body if isinstance(node, ast.ClassDef) else []:
            match statement:
                case ast.Assign(targets=[ast.Name(id="code")], value=ast.Constant(value=str(code))):
                    yield code


# What has the form of a code among the documents' sources, and is a place in a document.
PLACES = {"bundle.manifest_sha256", "bundle.name", "endpoint.controls"}
GIVEN = {"Problem": 1, "refuse": 0, "custom": 0}  # where the code stands among the arguments


def document_codes() -> set[str]:
    """Codes with which a document, a task's files, a bundle or its certification is refused."""
    sources = [
        *(ROOT / "runs/documents").rglob("*.py"),
        *(ROOT / f"benchsite/lib/{name}.py" for name in ("canonical", "closed", "problems")),
        ROOT / "runs/services/bundle_import.py",
        ROOT / "runs/services/reviewing.py",
    ]
    parsed = [ast.parse(path.read_text(encoding="utf-8")) for path in sources if path.name != "closed.py"]
    nodes = [node for tree in parsed for node in ast.walk(tree)]
    families = r"(?:bad_[a-z]+|bundle|certification|endpoint|json|name|spec|task|tree)\.[a-z_]+[a-z]"
    found = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    codes = {text for text in found if re.fullmatch(families, text) and not text.endswith((".json", ".toml", ".py"))}
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name(id=name), args=arguments) if len(arguments) > GIVEN.get(name, 99):
                codes |= texts(arguments[GIVEN[name]])
            case ast.Assign(targets=[ast.Name(id="code")], value=given):
                codes |= texts(given)
    return (codes | literal_codes("certification", "bundle", within="runs/engine/grading/certifying.py")) - PLACES


def texts(given: ast.expr) -> set[str]:
    """The text that is written there, or both of `one if … else other`."""
    match given:
        case ast.Constant(value=str(text)):
            return {text}
        case ast.IfExp(body=body, orelse=other):
            return texts(body) | texts(other)
    return set()


def general_kinds() -> set[str]:
    """What may stand behind a document's own prefix: what `validate` calls the ways to break a closed model."""
    found: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / "benchsite/lib/closed.py").read_text(encoding="utf-8"))):
        match node:
            case ast.Return(value=ast.Tuple(elts=[first, _])) | ast.Assign(targets=[ast.Name(id="code")], value=first):
                found |= texts(first)
    return found


@pytest.mark.parametrize("name", sorted(document_codes()))
def test_each_refusal_of_a_document_has_an_entry(name: str) -> None:
    prefix, _, kind = name.rpartition(".")
    general = kind in general_kinds() and prefix.startswith(("bad_", "task"))
    assert {name, f"….{kind}" if general else name} & entries()


@pytest.mark.parametrize("kind", sorted(general_kinds()))
def test_each_way_to_break_a_closed_document_has_an_entry(kind: str) -> None:
    assert f"….{kind}" in entries()


def test_the_refusals_of_documents_are_really_found_in_the_code() -> None:
    wanted = {"json.duplicate_key", "task.gpu", "tree.symlink", "name.outside", "mutable_adapter", "unknown_version"}
    assert wanted | {"endpoint.loopback_without_route", "certification.script_failed"} <= document_codes()
    assert {"missing_field", "empty", "boolean_as_number", "above_maximum"} <= general_kinds()


# -- what a page lists ------------------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", Verdict)
def test_each_verdict_is_explained(verdict: Verdict) -> None:
    assert any(row[0] == f"`{verdict.value}`" for row in cells("evidence.md"))


@pytest.mark.parametrize("state", ArtifactState)
def test_each_state_of_a_file_is_explained_and_whether_it_can_be_read(state: ArtifactState) -> None:
    readable = "yes" if state in READABLE else "no"
    assert [row[2] for row in cells("evidence.md") if row[0] == f"`{state.value}`" and len(row) == 3] == [readable]


@pytest.mark.parametrize("role", Role)
def test_each_role_stands_in_the_security_model(role: Role) -> None:
    assert any(row[0].startswith(role.value) for row in cells("security.md"))


@pytest.mark.parametrize("code", Exit)
def test_each_exit_code_is_documented(code: Exit) -> None:
    assert [row[:2] for row in cells("operating.md") if row[0] == str(int(code))] == [
        [str(int(code)), f"`{code.name}`"]
    ]


def test_a_failed_cleanup_is_explained() -> None:
    assert f"`cleanup: {Cleanup.FAILED.value}` means" in page("operating.md")


@pytest.mark.parametrize("name", [name for name, *_ in capabilities._RULES])
def test_each_limit_stands_in_the_table_of_limits(name: str) -> None:
    assert any(f"`limit.{name}_not_enforced`" in row for row in cells("compatibility.md"))
    assert name in (*REQUIRED_LIMITS, *OPTIONAL_LIMITS)


# -- settings ---------------------------------------------------------------------------------------------

_READ = re.compile(
    r'(?:environ\.(?:text|flag|integer|names|folder|database)|os\.environ\.(?:get|setdefault))\(\s*"([A-Z_]+)"'
    r'|os\.environ\["([A-Z_]+)"\]'
)


def settings_read() -> set[str]:
    """Every environment variable that the product or its scripts read under a name written out."""
    inside = {"PLAN", "LIMITS", "PATH"}  # of programs in containers, and the system's own
    found = {name for _, text in sources() for pair in _READ.findall(text) for name in pair if name}
    found |= set(re.findall(r"\bBENCHSITE_[A-Z_]+\b", "\n".join([*scripts(), *(text for _, text in sources())])))
    return {name.removesuffix("_FILE") for name in found if not name.endswith("_")} - inside


@pytest.mark.parametrize("name", sorted(settings_read()))
def test_each_setting_is_documented(name: str) -> None:
    assert any(row[0] == f"`{name}`" for row in cells("operating.md"))


def test_no_setting_is_documented_that_nothing_reads() -> None:
    named = {row[0].strip("`") for row in cells("operating.md") if re.fullmatch(r"`[A-Z][A-Z_]+`", row[0])}
    text = "\n".join([*scripts(), *(text for _, text in sources())])
    assert {name for name in named if name not in text} == set()


# -- commands ---------------------------------------------------------------------------------------------


def commands() -> set[str]:
    folders = (ROOT / package / "management/commands" for package in PACKAGES)
    return {path.stem for folder in folders for path in folder.glob("*.py") if path.stem != "__init__"}


@pytest.mark.parametrize("name", sorted(commands()))
def test_each_command_is_documented(name: str) -> None:
    starts = (f"`manage.py {name}`", f"`manage.py {name} ")
    assert any(row[0].startswith(starts) for row in cells("operating.md"))


DJANGOS_OWN = {"migrate", "createsuperuser", "runserver", "makemigrations", "shell", "check", "collectstatic"}


def test_every_command_that_is_named_anywhere_exists() -> None:
    texts = [*(path.read_text(encoding="utf-8") for path in PAGES), *(text for _, text in sources()), *scripts()]
    named = {name for text in texts for name in re.findall(r"manage\.py ([a-z_]+)\b", text)}
    assert named - commands() - DJANGOS_OWN == set()


# -- pins and fixtures ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lock", "name"),
    [
        ("runs/harness", "harbor"),
        ("runs/harness", "docker"),
        ("runs/images/agent", "mini-swe-agent"),
        ("runs/images/agent", "litellm"),
        ("runs/images/agent", "openai"),
        ("runs/images/gateway", "h11"),
        ("runs/images/gateway", "certifi"),
    ],
)
def test_each_pin_is_the_locked_one(lock: str, name: str) -> None:
    pin = next(pin for pin in read_requirements((ROOT / lock / "requirements.txt").read_text()) if pin.name == name)
    (row,) = [row for row in cells("compatibility.md") if len(row) == 4 and row[0].lower().split()[0] == name]
    assert row[1] == pin.version
    assert row[2].strip("`") in pin.hashes


def test_the_reviewed_commit_is_the_recorded_one_and_nothing_is_claimed_of_it() -> None:
    assert f"`{REVIEWED_SOURCE_COMMIT}`" in page("compatibility.md")
    assert '`"equality_claimed": false`' in page("compatibility.md")


def fixture(name: str) -> Any:
    return json.loads((FIXTURES / name).read_text(encoding="utf-8"))


def test_harbors_own_files_show_what_it_was_told() -> None:
    asked = fixture("config.json")
    assert config_differences(asked, fixture("job-config.json")) == []
    assert lock_differences(asked, fixture("job-lock.json"), harbor_version="0.22.0") == []
    assert trial_lock_differences(asked, fixture("trial-lock.json")) == []


def test_the_fixtures_have_the_shapes_that_are_documented() -> None:
    assert {"n_attempts", "install_only", "retry"} <= set(fixture("config.json"))
    assert {"n_attempts", "install_only", "retry"} & set(fixture("job-config.json")) == set()
    versions = [fixture(f"{name}.json").get("schema_version") for name in ("job-lock", "trial-lock", "trial-result")]
    assert versions == [3, 2, None]
    assert {f"`{path.name}`" for path in FIXTURES.glob("*.json")} <= {row[0] for row in cells("compatibility.md")}


def test_the_fixtures_name_no_place_of_a_machine_and_no_key() -> None:
    for path in FIXTURES.glob("*.json"):
        text = path.read_text(encoding="utf-8")
        assert "<run>" in text
        assert not re.search(r'"(?:file://)?/|/home/|/tmp/', text)
        assert not re.search(r"OPENAI_API_KEY\": \"(?!benchsite-placeholder-|benc\*\*\*\*)", text)


# -- pages ------------------------------------------------------------------------------------------------


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_each_link_of_a_page_leads_somewhere(path: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        if link.startswith(("http://", "https://")):
            continue
        target, _, anchor = link.partition("#")
        file = (path.parent / target).resolve() if target else path
        assert file.exists(), link
        assert not anchor or anchor in anchors(file), link


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_each_file_of_the_repository_that_a_page_names_is_there(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    named = set(
        re.findall(r"`((?:runs|evidence|benchsite|tests|requirements|script|templates)/[A-Za-z0-9_./-]+)`", text)
    )
    named -= {name for name in named if name.startswith("evidence/") and name.endswith(".json")}  # of a run's folder
    assert {name for name in named if not list(ROOT.glob(f"{name.rstrip('/')}*"))} == set()


def decisions() -> list[tuple[str, str]]:
    parts = re.split(r"^## ", page("decisions.md"), flags=re.M)[1:]
    return [(heading, body.strip()) for heading, _, body in (part.partition("\n") for part in parts)]


@pytest.mark.parametrize(("heading", "body"), decisions(), ids=[heading for heading, _ in decisions()])
def test_each_decision_is_dated_and_has_three_sentences(heading: str, body: str) -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\d: \S.*", heading)
    assert len(re.findall(r"[.?!](?= [A-Z`]|$)", body)) == 3
