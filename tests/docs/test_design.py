"""The design is in the repository, and every citation of it in code, tests and documents resolves."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DESIGN = (ROOT / "docs/design.md").read_text(encoding="utf-8")
CITATION = re.compile(r"\bdesign (\d+(?:\.\d+)?(?:(?:, | and )\d+(?:\.\d+)?)*)")
SUFFIXES = {".py", ".md", ".html", ".sh", ".toml", ""}


def sections() -> set[str]:
    """``3`` for each section, ``3.7`` for each numbered paragraph of it."""
    found, current = set(), ""
    for line in DESIGN.splitlines():
        if heading := re.match(r"## (\d+)\. ", line):
            current = heading[1]
            found.add(current)
        elif item := re.match(r"(\d+)\. ", line):
            found.add(f"{current}.{item[1]}")
    return found


def cited(text: str) -> set[str]:
    return {number for match in CITATION.finditer(text) for number in re.findall(r"\d+(?:\.\d+)?", match[1])}


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [ROOT / name for name in listed.split("\0") if name]
    return [path for path in paths if path.suffix in SUFFIXES and path.is_file() and path != Path(__file__)]


def test_every_citation_of_the_design_resolves() -> None:
    wrong = {
        f"{path.relative_to(ROOT)}: design {number}"
        for path in tracked()
        for number in cited(path.read_text(encoding="utf-8", errors="replace")) - sections()
    }
    assert wrong == set()


def test_citations_are_found_and_a_wrong_one_would_be() -> None:
    assert cited("(design 3.6, 3.10 and 4)") == {"3.6", "3.10", "4"}
    assert {"3.7", "3.10", "4", "9"} <= sections()
    assert cited("as design 11.3 says") - sections() == {"11.3"}


def test_nothing_cites_what_no_reader_can_open() -> None:
    """Issue trackers and conversations are not in the repository."""
    citing = re.compile(r"\(issue \d|\bissue \d+(\.\d+)?[):;]")
    assert [
        str(path.relative_to(ROOT)) for path in tracked() if citing.search(path.read_text("utf-8", "replace"))
    ] == []


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:benchsite|runs|evidence)/[a-z_/]*(?:\.py)?)`", DESIGN))))
def test_every_room_and_file_that_the_design_names_is_there(path: str) -> None:
    assert (ROOT / path).exists()


def test_every_room_of_the_packages_stands_in_the_design() -> None:
    rooms = {
        f"{package}/{folder.name}/"
        for package in ("runs", "evidence")
        for folder in (ROOT / package).iterdir()
        if (folder / "__init__.py").is_file()
    }
    hidden = {"runs/migrations/", "evidence/migrations/", "evidence/templatetags/", "runs/scripted/", "runs/smoke/"}
    assert {room for room in rooms - hidden if f"`{room}`" not in DESIGN} == set()


def test_no_product_code_cites_a_case_by_a_number_that_no_page_explains() -> None:
    citing = re.compile(r"\b(?:JQ|OW|OX|RS|RW|SE|FS|CL|TR)\d{2}\b")
    product = [
        path for path in tracked() if path.relative_to(ROOT).parts[0] in ("benchsite", "runs", "evidence", "client")
    ]
    assert len(product) > 200
    assert [str(path.relative_to(ROOT)) for path in product if citing.search(path.read_text("utf-8", "replace"))] == []
