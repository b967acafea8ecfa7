"""Which page answers which address?"""

from django.contrib import admin
from django.contrib.auth.views import LogoutView
from django.urls import URLPattern, URLResolver, include, path
from django.views.generic import RedirectView

from benchsite import views
from benchsite.health import healthz
from benchsite.metrics import metrics
from benchsite.one_time_login import one_time_login
from benchsite.password_forms import StaffSignInForm
from runs.views.overview import overview

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
    path("account/password/", views.ChangePassword.as_view(), name="password_change"),
    path("", include("evidence.urls")),
    path("", include("runs.urls")),
    # One page changes a password, under one bound; the admin's own page for it leads there.
    path("admin/password_change/", RedirectView.as_view(pattern_name="password_change")),
    path("admin/", admin.site.urls),
]

handler400 = "benchsite.views.bad_request"
handler403 = "benchsite.views.forbidden"
handler404 = "benchsite.views.not_found"
handler500 = "benchsite.views.server_error"
