"""Template tags of every page: the elements of `benchsite.lib.markup`, and the summary of a form's errors."""

from typing import Any

from django import template
from django.forms import BaseForm

from benchsite.lib import markup, pages, words
from benchsite.lib.visible_text import visible

register = template.Library()

for element in (markup.icon, markup.result, markup.dot, markup.unknown, markup.digest, markup.moment, words.duration):
    register.simple_tag(element)
register.filter(visible)


@register.inclusion_tag("includes/form_errors.html")
def form_errors(form: BaseForm, outcome: str) -> dict[str, Any]:
    """What is wrong with a form, each with a link to its field; takes the focus. ``outcome``: what did not happen."""
    return error_summary(pages.form_errors(form) if form.is_bound else [], outcome)


@register.inclusion_tag("includes/form_errors.html")
def error_summary(found: list[pages.FormError], outcome: str) -> dict[str, Any]:
    """The same, of problems that no form knows."""
    return {"errors": found, "outcome": f"{outcome}: {words.counted(len(found), 'problem')} to fix"}
