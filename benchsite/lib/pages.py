"""What pages of every app compute alike: the errors of a form for the summary on top, and the windows of long lists."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.core.exceptions import NON_FIELD_ERRORS

if TYPE_CHECKING:
    from django.forms import BaseForm


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
        # Codes of ours have an area and a dot; Django's own, such as ``required``, are of no use to anyone.
        FormError(*_place(form, name), sentence, error.code if error.code and "." in error.code else "")
        for name in names
        for error in found.get(name, ())
        for sentence in error.messages
    ]


def _place(form: "BaseForm", name: str) -> tuple[str, str]:
    if name == NON_FIELD_ERRORS or form[name].is_hidden:
        return "", ""
    # The id of what a person changes: of the first box where a field has several.
    return form[name].id_for_label or f"{form[name].auto_id}_0", str(form[name].label)


def first_of_window(asked: str, *, size: int, rows: int) -> int:
    """The first row, from 1, of the window with row ``asked`` (as an address says it), of ``rows`` in all; the first
    window for what is no number, the last one for what lies beyond the end.
    """
    wanted = int(asked) if asked.isdecimal() and len(asked) < 9 else 1
    return (min(max(wanted, 1), max(rows, 1)) - 1) // size * size + 1
