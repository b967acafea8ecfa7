"""Forms that take a password: sign-in of site and admin, change of password; one throttle for all three."""

from typing import Any

from django.contrib.admin.forms import AdminAuthenticationForm
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from benchsite.accounts import throttle
from benchsite.accounts.client_address import client_address

THROTTLED = "throttled"


class SignInForm(AuthenticationForm):
    """Django's form, which refuses for a while after too many failures."""

    error_messages = {
        "invalid_login": "Wrong user name or password. Both are case-sensitive.",
        "inactive": "This account is not active. Ask an administrator.",
    }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["username"].label = "User name"

    def clean(self) -> dict[str, Any]:
        # As Django reads it: without blanks around it, and in one form of compatible characters.
        name, address = str(self.cleaned_data.get("username", "")), _address(self.request)
        _begin(name, address)
        cleaned = super().clean()  # a failure stays counted
        if self.get_user() is not None:  # nobody signed in with a field left empty, so it forgives nothing
            throttle.succeeded(name, address)
        return cleaned or {}


class StaffSignInForm(SignInForm, AdminAuthenticationForm):
    """The admin's own door, with the same bound: it takes staff only."""

    error_messages = {
        **SignInForm.error_messages,
        "invalid_login": "Wrong user name or password, or this account has no access to the admin.",
    }


class ChangePasswordForm(PasswordChangeForm):
    """Django's form; whoever found a browser signed in cannot try old passwords without end."""

    def __init__(self, *args: Any, request: HttpRequest, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.request = request

    def clean_old_password(self) -> str:
        name, address = self.user.get_username(), _address(self.request)
        _begin(name, address)
        old = super().clean_old_password()  # a failure stays counted
        throttle.succeeded(name, address)
        return old


def _begin(name: str, address: str) -> None:
    if not throttle.begun(name, address):
        raise ValidationError(
            "Too many attempts. Wait five minutes, or ask an administrator to set a new password.", code=THROTTLED
        )


def _address(request: HttpRequest | None) -> str:
    return "" if request is None else client_address(request.META)
