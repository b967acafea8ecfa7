"""The list of messages between an attendant and its sandbox is whole: each that is understood, and no other."""

import re

from runs.attendant import requests


def subclasses(kind: type) -> set[type]:
    return {kind} | {each for child in kind.__subclasses__() for each in subclasses(child)}


def test_every_question_stands_in_the_list() -> None:
    listed = re.findall(r"^\| (?!question)([a-z_]+) \|", requests.__doc__ or "", flags=re.MULTILINE)
    understood = {each.__struct_config__.tag for each in subclasses(requests.Request)}  # type: ignore[attr-defined]
    abstract = {each.__name__ for each in (requests.Request, requests.OfSession)}
    assert sorted(listed) == sorted(understood - abstract)
