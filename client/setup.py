"""Builds the client with copies of the product's own modules that verify: there is one source of each.

Every copied module must need nothing but the standard library, cryptography and the others of the list.
"""

import re
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

CLIENT = Path(__file__).resolve().parent
SHARED = (
    "benchsite/lib/canonical.py",
    "benchsite/lib/folder.py",
    "benchsite/lib/foreign_files.py",
    "benchsite/lib/problems.py",
    "benchsite/lib/strict_json.py",
    "evidence/reading/tree.py",
    "evidence/origin/archive.py",
    "evidence/origin/command.py",
    "evidence/origin/envelope.py",
    "evidence/origin/public_keys.py",
    "evidence/origin/sources.py",
    "evidence/origin/statement.py",
    "evidence/origin/verifying.py",
)
_ROOMS = re.compile(r"^(from|import) (?:benchsite\.lib|evidence\.reading|evidence\.origin)\b", re.M)


class BuildWithShared(build_py):
    def run(self) -> None:
        super().run()
        target = Path(self.build_lib, "benchsite_client")
        for name in SHARED:
            source = (CLIENT.parent / name).read_text(encoding="utf-8")
            (target / Path(name).name).write_text(_ROOMS.sub(r"\1 benchsite_client", source), encoding="utf-8")


setup(packages=["benchsite_client"], cmdclass={"build_py": BuildWithShared})
