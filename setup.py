"""The distribution's packages by their folders. Everything else about it stands in pyproject.toml."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["benchsite*", "runs*", "evidence*"]), "benchsite.templates"],
    # In a checkout the templates have a folder of their own; installed, they are data of the project's package.
    package_dir={"benchsite.templates": "templates"},
)
