"""The pages of an account: signing in, also by the demo's one-time links, the password, the appearance."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login
from django.contrib.auth import views as auth_views
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.contrib.auth.tokens import default_token_generator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse, reverse_lazy
from django.utils.http import urlsafe_base64_decode, urlsafe_base64_encode
from django.views.decorators.http import require_POST, require_safe

from benchsite import error_pages
from benchsite.accounts.password_forms import THROTTLED, ChangePasswordForm, SignInForm
from benchsite.navigation import THEME_COOKIE, THEMES, may_words
from runs.models import ApiToken
from runs.services import access, tokens
from runs.services.refusals import BadInput, whole_number

_YEAR_S = 31_536_000
_SCOPE_WORDS = {
    tokens.Scope.READ: "read what this account may see",
    tokens.Scope.PUBLISH: "publish experiments and suites",
    tokens.Scope.RUN: "start and cancel runs",
}


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
        messages.info(self.request, "Password changed. All other sessions are signed out.")
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
    """The signed-in person: roles, password, tokens, appearance."""
    return render(request, "account.html", _account(request))


@require_POST
def token_create(request: HttpRequest) -> HttpResponse:
    """Make a token of the signed-in person. Its text stands on this one answer, which no browser keeps."""
    user = access.require(request.user, access.VIEW)
    scopes, asked = request.POST.getlist("scope"), request.POST.get("days", "")
    try:
        days = whole_number("Days", asked) if asked else None
        made = tokens.create(user=user, by=user, name=request.POST.get("name", ""), scopes=scopes, days=days)
    except BadInput as error:
        given = {"refused": error.sentence, "name": request.POST.get("name", ""), "chosen": scopes, "days": asked}
        return render(request, "account.html", {**_account(request), **given})
    return render(request, "account.html", {**_account(request), "made": made})


@require_POST
def token_revoke(request: HttpRequest, key: str) -> HttpResponse:
    """Revoke a token of the signed-in person; an administrator's act on another's is in the admin."""
    user = access.require(request.user, access.VIEW)
    token = get_object_or_404(ApiToken.objects.select_related("user"), key=key, user=user)
    tokens.revoke(by=user, token=token)
    messages.info(request, f"Revoked: {token.name}.")
    return redirect(reverse("account") + "#tokens")


def _account(request: HttpRequest) -> dict[str, Any]:
    may_have_tokens = access.may(request.user, access.VIEW)
    owned = ApiToken.objects.filter(user=access.require(request.user, access.VIEW)) if may_have_tokens else []
    return {
        "may_have_tokens": may_have_tokens,
        "tokens": [(token, tokens.state_word(token)) for token in owned],
        "scopes": [(scope.value, words) for scope, words in _SCOPE_WORDS.items()],
        "chosen": [tokens.Scope.READ.value],
        "groups": list(request.user.groups.values_list("name", flat=True)),
        "may": may_words(request.user),
        "themes": [
            (value, word, value == request.COOKIES.get(THEME_COOKIE, ""))
            for value, word in [("", "As the system"), ("light", "Light"), ("dark", "Dark")]
        ],
    }


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


def link_for(user: User) -> str:
    """The path that signs ``user`` in once; on a production site there is none.

    The token is Django's own for a new password: it is bound to the last sign-in, so that using it spends it.
    """
    key = urlsafe_base64_encode(str(user.pk).encode())
    return reverse("one_time_login", args=[key, default_token_generator.make_token(user)])


@login_not_required
@require_safe
def one_time_login(request: HttpRequest, key: str, token: str) -> HttpResponse:
    user = _user_of(key)
    if settings.PRODUCTION or user is None:
        raise Http404
    if not default_token_generator.check_token(user, token):
        return error_pages.spent_link(request)
    login(request, user)
    return redirect("overview")


def _user_of(key: str) -> User | None:
    try:
        pk = int(urlsafe_base64_decode(key))
    except ValueError:
        return None
    return User.objects.filter(pk=pk, is_active=True).first()
