"""Debian packages are the reviewed ones or the build does not begin."""

import hashlib
import io
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from runs.engine.assets import debian
from runs.engine.assets.errors import AssetError
from runs.images.recipes import Recipe, read_recipe


def archive(path: Path, packages: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in packages.items():
            member = tarfile.TarInfo(name if "/" in name else f"var/cache/apt/archives/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    """A recipe that locks two packages, one of them with an epoch."""
    found = replace(read_recipe("verifier"), folder=tmp_path)
    rows = [
        f"bash 5.2-1 amd64 {hashlib.sha256(b'b').hexdigest()}",
        f"git 1:2.39 all {hashlib.sha256(b'g').hexdigest()}",
    ]
    found.package_lock(debian.architecture()).write_text("\n".join(rows) + "\n")
    return found


GOOD = {"bash_5.2-1_amd64.deb": b"b", "git_1%3a2.39_all.deb": b"g", "var/lib/apt/lists/Packages": b"index"}
PATHS = "debootstrap/debpaths"


def test_an_archive_is_read_as_its_lock_is_written(tmp_path: Path, recipe: Recipe) -> None:
    assert debian.list_packages(archive(tmp_path / "a.tgz", GOOD)) == debian.read_package_lock(recipe)


@pytest.mark.parametrize(
    ("packages", "named"),
    [
        pytest.param(GOOD | {"bash_5.2-1_amd64.deb": b"forged"}, "bash", id="same version, other bytes"),
        pytest.param({name: GOOD[name] for name in GOOD if "git" not in name}, "git", id="missing"),
        pytest.param(GOOD | {"curl_7.88_amd64.deb": b"c"}, "curl", id="additional"),
    ],
)
def test_other_packages_are_refused_by_name_before_anything_runs(
    tmp_path: Path, recipe: Recipe, packages: dict[str, bytes], named: str
) -> None:
    with pytest.raises(AssetError) as caught:
        debian.unpack_root(recipe, archive(tmp_path / "a.tgz", packages), tmp_path / "root")
    assert caught.value.code == "image.packages_changed"
    assert named in caught.value.sentence
    assert not (tmp_path / "root").exists()


@pytest.mark.parametrize(
    "stranger",
    [
        pytest.param({"usr/lib/python3/dist-packages/sitecustomize.py": b"forged"}, id="a file of the image's root"),
        pytest.param({"evil.deb": b"forged"}, id="a package without a version in its name"),
        pytest.param({"debootstrap/deeper/evil": b"forged"}, id="a folder that is not debootstrap's"),
        pytest.param({PATHS: b"bash /debootstrap/evil\n"}, id="a package installed from another place"),
        pytest.param({PATHS: b"bash /var/cache/apt/archives/git_1%3a2.39_all.deb\n"}, id="another package's file"),
    ],
)
def test_an_archive_holds_packages_and_debootstraps_notes_and_nothing_else(
    tmp_path: Path, recipe: Recipe, stranger: dict[str, bytes]
) -> None:
    """It is unpacked as the image's root: a file in it would stand in the verifier."""
    with pytest.raises(AssetError) as caught:
        debian.unpack_root(recipe, archive(tmp_path / "a.tgz", GOOD | stranger), tmp_path / "root")
    assert caught.value.code == "image.archive_changed"
    assert not (tmp_path / "root").exists()


def test_no_link_is_taken_from_an_archive(tmp_path: Path) -> None:
    link = tarfile.TarInfo("var/lib/apt/lists/link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc"
    with tarfile.open(tmp_path / "a.tgz", "w:gz") as tar:
        tar.addfile(link)
    with pytest.raises(AssetError):
        debian.list_packages(tmp_path / "a.tgz")


def test_debootstraps_own_list_of_paths_is_accepted(tmp_path: Path, recipe: Recipe) -> None:
    paths = b"bash /var/cache/apt/archives/bash_5.2-1_amd64.deb\ngit /var/cache/apt/archives/git_1%3a2.39_all.deb\n"
    found = debian.list_packages(archive(tmp_path / "a.tgz", GOOD | {PATHS: paths}))
    assert found == debian.read_package_lock(recipe)


def test_an_architecture_without_a_lock_is_refused(recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian, "architecture", lambda: "riscv64")
    with pytest.raises(AssetError) as caught:
        debian.read_package_lock(recipe)
    assert (caught.value.code, "riscv64" in caught.value.sentence) == ("image.no_package_lock", True)


def test_without_root_the_sentence_names_the_way_out(
    tmp_path: Path, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/sbin/{name}")
    with pytest.raises(AssetError) as caught:
        debian.unpack_root(recipe, archive(tmp_path / "a.tgz", GOOD), tmp_path / "root")
    assert caught.value.code == "image.needs_root"


def test_a_missing_program_names_its_package(tmp_path: Path, recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(AssetError) as caught:
        debian.unpack_root(recipe, archive(tmp_path / "a.tgz", GOOD), tmp_path / "root")
    assert caught.value.code == "assets.tool_missing"
    assert "debootstrap" in caught.value.sentence


def test_only_what_dpkg_calls_installed_counts(tmp_path: Path) -> None:
    status = tmp_path / "var/lib/dpkg/status"
    status.parent.mkdir(parents=True)
    status.write_text(
        "Package: bash\nStatus: install ok installed\nArchitecture: amd64\nVersion: 5.2-1\n"
        "Description: shell\n more: text\n\n"
        "Package: apt\nStatus: deinstall ok config-files\nArchitecture: amd64\nVersion: 2.6\n"
    )
    assert debian.installed_packages(tmp_path) == [("bash", "5.2-1", "amd64")]
