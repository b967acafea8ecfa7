"""Addresses of the pages of evidence. Files only by an unguessable id, never by a path."""

from django.urls import path

from evidence.web import compare, downloads, listing, origin, trajectory
from evidence.web.experiments import comparison, conversation, experiment, suites, trial
from evidence.web.experiments.listing import experiment_list
from runs.web import urls as _converters  # noqa: F401 - registers the converter of run keys

urlpatterns = [
    path("runs/compare/", compare.compare_page, name="compare"),
    path("runs/<key:key>/evidence/", listing.evidence_list, name="evidence"),
    path("runs/<key:key>/evidence/archive/", downloads.archive, name="evidence_archive"),
    path("runs/<key:key>/trials/<int:ordinal>/trajectory/", trajectory.trajectory_page, name="trajectory"),
    path("evidence/<slug:key>/download/", downloads.download, name="evidence_download"),
    path("signing-keys/", origin.signing_keys, name="signing_keys"),
    path("signing-keys/keys.json", origin.signing_keys_file, name="signing_keys_file"),
    path("experiments/", experiment_list, name="experiments"),
    path("experiments/compare/", comparison.compare_page, name="experiments_compare"),
    path("experiments/files/<slug:key>/download/", downloads.handed_in, name="experiment_file"),
    path("experiments/<slug:key>/", experiment.experiment_page, name="experiment"),
    path("experiments/<slug:key>/trials/<int:pk>/", trial.trial_page, name="experiment_trial"),
    path(
        "experiments/<slug:key>/trials/<int:pk>/conversation/",
        conversation.conversation_page,
        name="experiment_conversation",
    ),
    path("suites/", suites.suite_list, name="suites"),
    path("suites/<int:pk>/", suites.suite_page, name="suite"),
    path("cases/<int:pk>/", suites.case_page, name="case"),
    path("evidence/<slug:key>/text/", downloads.text, name="evidence_text"),
]
