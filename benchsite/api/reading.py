"""What a request says: strict JSON bodies, whole numbers in addresses, and no parameter that is not known."""

import re
from typing import Annotated, Any

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest
from ninja.params import functions
from ninja.parser import Parser
from pydantic import BeforeValidator

from benchsite.lib.strict_json import JsonProblem, load
from runs.services.refusals import MAX_DIGITS, WHOLE_WANTED, BadInput, quoted

MAX_BODY = 2_000_000
_BODY_ITEMS = 100_000


def _whole(value: object) -> object:
    """Of an address, where a number is a text: digits and nothing that merely looks like a number."""
    if isinstance(value, str) and not re.fullmatch(rf"[0-9]{{1,{MAX_DIGITS}}}", value):
        raise ValueError(WHOLE_WANTED)
    return value


Whole = Annotated[int, BeforeValidator(_whole)]
LIMIT: Any = functions.Query(50, ge=1, le=200, description="How many at most")


class StrictParser(Parser):
    """Reads a body as every document of the product is read: no doubled key, no NaN, UTF-8, within bounds."""

    def parse_body(self, request: HttpRequest) -> Any:
        try:
            return load(request.body, size=MAX_BODY, items=_BODY_ITEMS, storable=True)
        except JsonProblem as error:
            if error.code == "size":
                raise RequestDataTooBig(error.detail) from None
            raise BadInput(f"The body is not one clean JSON value: {error.code}. {error.detail}".strip()) from None


def only(request: HttpRequest, *names: str) -> None:
    """Refuse a query parameter that is not known, and one that is given twice."""
    for name in request.GET:
        if name not in names:
            known = ", ".join(names) or "none"
            raise BadInput(f"There is no parameter {quoted(name)} here; known: {known}.")
        if len(request.GET.getlist(name)) > 1:
            raise BadInput(f"{name} is given more than once.")
    for text in request.GET.values():
        if "\0" in text:
            raise BadInput("A parameter holds a NUL character.")
