"""One-time sign-in links of the demo: the token is spent by the first sign-in.

The token is Django's own password-reset token: it is bound to the account's last sign-in, so using it spends it.
The address does not exist on a production site.
"""

from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.contrib.auth.tokens import default_token_generator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlsafe_base64_decode, urlsafe_base64_encode
from django.views.decorators.http import require_safe

from benchsite import error_pages


def link_for(user: User) -> str:
    """The path that signs ``user`` in once."""
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
