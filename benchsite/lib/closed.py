"""Closed models of documents: validation that reports every problem at once, with our codes and paths."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from benchsite.lib.canonical import Json
from benchsite.lib.problems import Location, Problem, path_of

type Relocate = Callable[[Location], Location]

SHA256 = r"^[0-9a-f]{64}$"
IMAGE_ID = r"^sha256:[0-9a-f]{64}$"
IDENTIFIER = r"^[a-z0-9][a-z0-9._-]{0,127}$"

_WANTED: dict[str, str] = {}


def form(pattern: str, wanted: str, *, max_length: int | None = None) -> Any:
    """A field whose text has a form; a refusal says in words what is `wanted`, and never shows the pattern."""
    _WANTED[pattern] = wanted
    return Field(pattern=pattern, max_length=max_length)


Sha256 = Annotated[str, form(SHA256, f"a SHA-256 in 64 lower-case hexadecimal digits, such as {'3f' * 32}")]
Identifier = Annotated[
    str, form(IDENTIFIER, "1 to 128 lower-case letters, digits, dots, dashes or underscores, such as environment-smoke")
]
Text = Annotated[str, Field(min_length=1, max_length=2_000)]
# Not Literal[1], which takes `true` and `1.0` too.
One = Annotated[int, Field(ge=1, le=1)]
Zero = Annotated[int, Field(ge=0, le=0)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Closed(BaseModel):
    """A model that knows all its fields and coerces nothing: `1.0`, `"1"` and `true` are no integers."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def validate[M: BaseModel](
    model: type[M], document: Json, *, prefix: str, relocate: Relocate = lambda location: location
) -> tuple[M | None, list[Problem]]:
    """The model, or None with all problems. Codes are `<prefix>.<kind>`, or a custom error's own code.

    `relocate` corrects a location of the validator to one of the document (union tags are no part of it).
    """
    try:
        return model.model_validate(document), []
    except ValidationError as error:
        return None, [_problem(details, prefix, relocate) for details in error.errors(include_url=False)]


def custom(code: str, sentence: str) -> PydanticCustomError:
    """An error to raise in a validator; `code` is taken as it stands."""
    return PydanticCustomError(f"code:{code}", "{sentence}", {"sentence": sentence})


def _problem(details: ErrorDetails, prefix: str, relocate: Relocate) -> Problem:
    # A key that breaks its own rule is marked with one more part, which is no place of the document.
    location = relocate(tuple(part for part in details["loc"] if part != "[key]"))
    path = path_of(location)
    kind = details["type"]
    if kind.startswith("code:"):
        return Problem(path, kind.removeprefix("code:"), details["msg"])
    context = details.get("ctx", {})
    if kind.startswith("union_tag"):
        path = path_of((*location, context["discriminator"].strip("'")))
    code, sentence = _explained(kind, context, details["input"])
    return Problem(path, f"{prefix}.{code}", sentence)


def _explained(kind: str, context: Mapping[str, Any], found: object) -> tuple[str, str]:
    match kind:
        case "missing":
            return "missing_field", "the field is missing"
        case "extra_forbidden":
            return "unknown_field", "there is no such field here"
        case "less_than_equal":
            return "above_maximum", f"{found} is above {_number(context['le'])}"
        case "greater_than_equal":
            return "below_minimum", f"{found} is below {_number(context['ge'])}"
        case "too_short" | "too_long" | "string_too_short" | "string_too_long":
            return _length(kind, context)
        case "finite_number":
            return "not_finite", "NaN and infinities are no limits"
        case "string_pattern_mismatch":
            return "bad_format", f"the text is not {_WANTED[context['pattern']]}"
        case "literal_error":
            return "unexpected_value", f"the value is not {context['expected']}"
        case "union_tag_not_found":
            return "missing_field", "the field is missing"
        case "union_tag_invalid":
            return "unexpected_value", f"the value is none of {context['expected_tags']}"
    wanted = _KINDS.get(kind.split("_")[0], "of the expected type")
    seen = _NAMES.get(type(found), "something else")
    code = "wrong_type"
    if kind.startswith(("int", "float")) and type(found) is bool:
        code = "boolean_as_number"
    elif kind.startswith("int") and type(found) is float:
        code = "fraction_as_integer"
    return code, f"it is {seen}, not {wanted}"


def _length(kind: str, context: Mapping[str, Any]) -> tuple[str, str]:
    unit = "characters" if kind.startswith("string") else "elements"
    if kind.endswith("short"):
        return (
            "empty" if context["min_length"] == 1 else "too_short"
        ), f"it has fewer than {context['min_length']} {unit}"
    return "too_long", f"it has more than {context['max_length']} {unit}"


_KINDS = {
    "string": "a text", "int": "an integer", "float": "a number", "bool": "true or false", "list": "a list",
    "tuple": "a list", "dict": "an object", "model": "an object",
}  # fmt: skip
_NAMES = {bool: "a boolean", int: "an integer", float: "a number with a fraction", str: "a text", list: "a list",
          dict: "an object", type(None): "null"}  # fmt: skip


def _number(bound: object) -> str:
    return f"{bound:,}" if isinstance(bound, int) else f"{bound:g}"
