"""The client package verifies as the product does, with the standard library and cryptography alone."""

import ast
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.origin.signed import WORKER, key_document, signed_run

ROOT = Path(__file__).resolve().parents[2]
# Of an installed cryptography: itself and what it needs.
NEEDED = ("cryptography", "cffi", "_cffi_backend", "pycparser")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the client's own modules, from its wheel."""
    folder = tmp_path_factory.mktemp("client")
    tracked = subprocess.check_output(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT)
    for name in tracked.decode().split("\0"):
        if name.startswith(("client/", "benchsite/lib/", "evidence/reading/", "evidence/origin/")):
            (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "source" / name).write_bytes((ROOT / name).read_bytes())
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
    build = [*pip, "--no-build-isolation", "--wheel-dir", str(folder), str(folder / "source/client")]
    subprocess.run(build, check=True)
    (wheel,) = folder.glob("benchsite_client-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def run(client: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """With nothing of the product, or of its other dependencies, to be imported."""
    import cryptography

    start = (
        f"import sys; sys.path[:] = [path for path in sys.path if 'site-packages' not in path]\n"
        f"sys.path += [{str(client)!r}, {str(Path(cryptography.__file__).parents[1])!r}]\n"
        f"class Only:\n"
        f"    def find_spec(self, name, path=None, target=None):\n"
        f"        top = name.partition('.')[0]\n"
        f"        if top not in sys.stdlib_module_names and top not in {('benchsite_client', *NEEDED)!r}:\n"
        f"            raise ImportError('not of the client: ' + name)\n"
        f"sys.meta_path.insert(0, Only())\n"
        f"from benchsite_client.commandline import main\n"
        f"sys.exit(main(sys.argv[1:]))\n"
    )
    command = [sys.executable, "-I", "-c", start, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=client, timeout=120)


def test_it_verifies_and_finds_a_change(client: Path, tmp_path: Path) -> None:
    folder = signed_run(tmp_path / "run")
    key = tmp_path / "key.json"
    key.write_text(json.dumps(key_document(WORKER, "worker")))
    done = run(client, "verify", str(folder), "--key", str(key), "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["consistent"]["holds"]
    assert document["authentic"]["holds"]
    assert document["rederivable"]["holds"] is None
    (folder / "ledger.jsonl").write_bytes(b"")
    done = run(client, "verify", str(folder), "--key", str(key))
    assert (done.returncode, "file.differs: ledger.jsonl" in done.stdout) == (1, True)
    done = run(client, "verify", str(tmp_path / "absent"), "--key", str(key), "--json")
    assert (done.returncode, json.loads(done.stdout)["code"]) == (2, "input.no_evidence")
    assert run(client, "verify", str(folder)).returncode == 2, "a key is always needed"


def test_its_modules_are_the_products_and_import_no_other(client: Path) -> None:
    shared = re.findall(r'^    "(.+\.py)",$', (ROOT / "client/setup.py").read_text(), re.M)
    assert len(shared) > 10
    built = {path.name for path in (client / "benchsite_client").iterdir() if path.suffix == ".py"}
    assert built == {Path(name).name for name in shared} | {"__init__.py", "commandline.py"}
    for name in shared:
        copy = (client / "benchsite_client" / Path(name).name).read_text()
        back = ast.dump(ast.parse(copy)).replace("'benchsite_client", "'")
        own = re.sub(
            r"'(benchsite\.lib|evidence\.reading|evidence\.origin)", "'", ast.dump(ast.parse((ROOT / name).read_text()))
        )
        assert back == own, name
