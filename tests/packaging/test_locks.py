"""The lock with boto3 is the main one with what boto3 needs, and nothing else (docs/production.md)."""

from pathlib import Path

from runs.engine.assets.wheels import read_requirements

REQUIREMENTS = Path(__file__).parents[2] / "requirements"
# botocore 1.44 refuses python-dateutil 4, which needs tzdata.
OTHERWISE = {"python-dateutil", "tzdata"}


def pins(name: str) -> dict[str, tuple[str, object]]:
    found = read_requirements((REQUIREMENTS / f"{name}.txt").read_text())
    return {pin.name: (pin.version, pin.hashes) for pin in found}


def test_the_lock_with_boto3_is_the_main_lock_otherwise() -> None:
    main, s3 = pins("main"), pins("s3")
    assert {name for name in main if s3.get(name) != main[name]} == OTHERWISE
    assert set(s3) - set(main) == {"boto3", "botocore", "jmespath", "s3transfer", "six"}
    assert all(hashes for _, hashes in s3.values())
