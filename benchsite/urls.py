"""Addresses of the site."""

from django.contrib import admin
from django.contrib.auth.views import LogoutView
from django.urls import URLPattern, URLResolver, include, path
from django.views.generic import RedirectView

from benchsite.accounts import views
from benchsite.accounts.password_forms import StaffSignInForm
from benchsite.accounts.views import one_time_login
from benchsite.api.app import urls as api_urls
from benchsite.health import healthz
from benchsite.metrics import metrics
from runs.web.views.overview import overview

admin.site.login_form = StaffSignInForm

urlpatterns: list[URLPattern | URLResolver] = [
    path("", overview, name="overview"),
    path("healthz", healthz, name="healthz"),
    path("metrics", metrics, name="metrics"),
    path("sign-in/", views.SignIn.as_view(), name="login"),
    path("sign-in/once/<str:key>/<str:token>/", one_time_login, name="one_time_login"),
    path("sign-out/", LogoutView.as_view(), name="logout"),
    path("account/", views.account, name="account"),
    path("account/appearance/", views.appearance, name="appearance"),
    path("account/tokens/", views.token_create, name="token_create"),
    path("account/tokens/<str:key>/revoke/", views.token_revoke, name="token_revoke"),
    path("account/password/", views.ChangePassword.as_view(), name="password_change"),
    path("api/v1/", include(api_urls())),
    path("", include("evidence.web.urls")),
    path("", include("runs.web.urls")),
    # One page changes a password, under one bound; the admin's own page for it leads there.
    path("admin/password_change/", RedirectView.as_view(pattern_name="password_change")),
    path("admin/", admin.site.urls),
]

handler400 = "benchsite.error_pages.bad_request"
handler403 = "benchsite.error_pages.forbidden"
handler404 = "benchsite.error_pages.not_found"
handler500 = "benchsite.error_pages.server_error"
