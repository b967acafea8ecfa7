"""Who may come in, and what does a person see when something is wrong? Sign in, account, error pages."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import views as auth_views
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse_lazy
from django.views.decorators.http import require_POST, require_safe

from benchsite.navigation import THEME_COOKIE, THEMES, may_words
from benchsite.password_forms import THROTTLED, ChangePasswordForm, SignInForm

_YEAR_S = 31_536_000


class SignIn(auth_views.LoginView):
    authentication_form = SignInForm
    redirect_authenticated_user = True

    def form_invalid(self, form: Any) -> HttpResponse:
        form.fields["username"].widget.attrs.pop("autofocus", None)  # what is wrong is read first
        response = super().form_invalid(form)
        response.status_code = _refused(form, "__all__")
        return response


class ChangePassword(auth_views.PasswordChangeView):
    form_class = ChangePasswordForm
    template_name = "registration/change_password.html"
    success_url = reverse_lazy("account")

    def form_valid(self, form: Any) -> HttpResponse:
        messages.info(self.request, "The password is changed. You are signed out everywhere else.")
        return super().form_valid(form)

    def form_invalid(self, form: Any) -> HttpResponse:
        form.fields["old_password"].widget.attrs.pop("autofocus", None)  # what is wrong is read first
        response = super().form_invalid(form)
        response.status_code = _refused(form, "old_password")
        return response

    def get_form_kwargs(self) -> dict[str, Any]:
        return {**super().get_form_kwargs(), "request": self.request}


def _refused(form: forms.Form, field: str) -> int:
    """The HTTP status of a form that was not taken: 429 when too much was tried, else the page with its errors."""
    return 429 if form.has_error(field, THROTTLED) else 200


class AppearanceForm(forms.Form):
    theme = forms.ChoiceField(choices=[("", "as the system"), *((theme, theme) for theme in THEMES)], required=False)


@require_safe
def account(request: HttpRequest) -> HttpResponse:
    """The signed-in person: roles, password, appearance."""
    context = {
        "groups": list(request.user.groups.values_list("name", flat=True)),
        "may": may_words(request.user),
        "themes": [(value, word, value == request.COOKIES.get(THEME_COOKIE, "")) for value, word in _themes()],
    }
    return render(request, "account.html", context)


def _themes() -> list[tuple[str, str]]:
    return [("", "As the system"), ("light", "Light"), ("dark", "Dark")]


@require_POST
def appearance(request: HttpRequest) -> HttpResponse:
    """Keep the chosen theme in this browser."""
    form = AppearanceForm(request.POST)
    response = redirect("account")
    if form.is_valid() and form.cleaned_data["theme"]:
        theme = form.cleaned_data["theme"]
        secure = settings.SESSION_COOKIE_SECURE
        response.set_cookie(THEME_COOKIE, theme, max_age=_YEAR_S, secure=secure, samesite="Lax", httponly=True)
    else:
        response.delete_cookie(THEME_COOKIE)
    return response


def _error(request: HttpRequest, status: int, word: str, sentence: str, remedy: str) -> HttpResponse:
    context = {"status": status, "word": word, "sentence": sentence, "remedy": remedy}
    return render(request, "error.html", context, status=status)


@login_not_required
def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _error(request, 400, "Not understood", "The request could not be read.", "Go back and try again.")


@login_not_required
def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _error(
        request,
        403,
        "Not for your role",
        "Your role does not allow this.",
        "An administrator can give you the role that does; your account page names the ones you have.",
    )


@login_not_required
def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    return _error(
        request,
        403,
        "Form expired",
        "The form was not sent from a current page of this site, so nothing was done.",
        "Load the page again and repeat what you did.",
    )


def spent_link(request: HttpRequest) -> HttpResponse:
    """A link that signs in once, a second time."""
    return _error(
        request,
        404,
        "Link used up",
        "This link signs in once: it was used already, or is no longer valid.",
        "manage.py demo_login prints a new one.",
    )


@login_not_required
def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _error(
        request,
        404,
        "Not found",
        "There is nothing at this address, or it is not for you.",
        "Check the address, or start from the overview.",
    )


@login_not_required
def server_error(request: HttpRequest) -> HttpResponse:
    return _error(
        request,
        500,
        "Something failed here",
        "The site could not answer. The failure was written to its log.",
        "Try again; if it stays, tell an administrator the time and this address.",
    )
