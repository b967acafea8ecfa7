"""Addresses of the pages of runs. Run keys are 32 hex characters, as in folders and labels."""

from uuid import UUID

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from runs.web.views import bundles, catalogue, overview, previews, run_list, run_page, trial_page, workers


class KeyConverter:
    """A run's key: 32 lower-case hex characters."""

    regex = "[0-9a-f]{32}"

    def to_python(self, value: str) -> UUID:
        return UUID(hex=value)

    def to_url(self, value: UUID | str) -> str:
        return value.hex if isinstance(value, UUID) else value.replace("-", "")


class BeginningConverter(StringConverter):
    """The beginning of a run's key as people copy it, or a whole one in another spelling; never a key as above."""

    regex = "(?![0-9a-f]{32}/)[0-9a-fA-F][0-9a-fA-F-]{7,35}"


register_converter(KeyConverter, "key")
register_converter(BeginningConverter, "beginning")

urlpatterns = [
    path("live/", overview.overview_live, name="overview_live"),
    path("runs/", run_list.run_list, name="runs"),
    path("runs/new/", previews.run_new, name="run_new"),
    path("runs/previews/<key:key>/", previews.preview_page, name="preview"),
    path("runs/previews/<key:key>/confirm/", previews.confirm, name="preview_confirm"),
    path("runs/<key:key>/", run_page.run_page, name="run"),
    path("runs/<key:key>/live/", run_page.run_live, name="run_live"),
    path("runs/<key:key>/trials/<int:ordinal>/", trial_page.trial_page, name="trial"),
    path("runs/<key:key>/trials/<int:ordinal>/live/", trial_page.trial_live, name="trial_live"),
    path("runs/<key:key>/cancel/", run_page.cancel, name="run_cancel"),
    path("runs/<key:key>/cleanup/", run_page.cleanup, name="run_cleanup"),
    path("runs/<beginning:beginning>/", run_page.run_short, name="run_short"),
    path("runs/<beginning:beginning>/<path:rest>", run_page.run_short, name="run_short"),
    path("profiles/", catalogue.profiles, name="profiles"),
    path("profiles/<int:pk>/", catalogue.profile, name="profile"),
    path("bundles/", bundles.bundles, name="bundles"),
    path("bundles/<str:name>/<int:revision>/", bundles.bundle, name="bundle"),
    path("bundles/<str:name>/<int:revision>/review/", bundles.review, name="bundle_review"),
    path("bundles/<str:name>/<int:revision>/retire/", bundles.retire, name="bundle_retire"),
    path("endpoints/", catalogue.endpoints, name="endpoints"),
    path("endpoints/<str:name>/<int:version>/", catalogue.endpoint, name="endpoint"),
    path("endpoints/<str:name>/<int:version>/connection/", catalogue.connection_panel, name="endpoint_connection"),
    path("endpoints/<str:name>/<int:version>/stop/", catalogue.endpoint_stop, name="endpoint_stop"),
    path("endpoints/<str:name>/<int:version>/allow/", catalogue.endpoint_allow, name="endpoint_allow"),
    path("endpoints/<str:name>/<int:version>/test/", catalogue.connection_test, name="endpoint_test"),
    path("workers/", workers.workers, name="workers"),
    path("workers/<str:name>/", workers.worker, name="worker"),
    path("workers/<str:name>/lost/", workers.lost, name="worker_lost"),
    path("workers/<str:name>/remove/", workers.remove, name="worker_remove"),
]
