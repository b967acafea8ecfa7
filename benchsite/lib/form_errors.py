"""The errors of a form for the summary on top, each with a link to its field."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.core.exceptions import NON_FIELD_ERRORS

if TYPE_CHECKING:
    from django.forms import BaseForm
    from django.forms.boundfield import BoundField


@dataclass(frozen=True, slots=True)
class FormError:
    """One problem. ``anchor`` and ``label`` are the control's id and its visible label, empty for the form as a whole.

    ``code`` is the one that commands and tools give too, empty where only a form can go wrong that way.
    """

    anchor: str
    label: str
    sentence: str
    code: str


def form_errors(form: "BaseForm") -> list[FormError]:
    """Every problem of a bound form, in the order of its fields; those of the form as a whole come first."""
    found = form.errors.as_data()
    names = [NON_FIELD_ERRORS, *form.fields]
    return [
        FormError(*_place(form, name), sentence, _stable(error.code))
        for name in names
        for error in found.get(name, ())
        for sentence in error.messages
    ]


def _place(form: "BaseForm", name: str) -> tuple[str, str]:
    if name == NON_FIELD_ERRORS or form[name].is_hidden:
        return "", ""
    return control_id(form[name]), str(form[name].label)


def control_id(field: "BoundField") -> str:
    """The id of what a person changes: of the first box where a field has several."""
    return field.id_for_label or f"{field.auto_id}_0"


def _stable(code: str | None) -> str:
    """Codes of ours have an area and a dot; Django's own, such as ``required``, are of no use to anyone."""
    return code if code and "." in code else ""
