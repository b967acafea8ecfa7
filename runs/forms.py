"""What does a person choose for a run, and how is it read from a form?"""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils import timezone

from benchsite import words
from runs import registry
from runs.documents.problems import DocumentError
from runs.models import Endpoint, Profile, TaskBundle, Worker
from runs.presenting.workers import condition
from runs.refusals import UnknownName

_OPTIONAL = "leave empty for the profile's own"


class _Newest(forms.ModelChoiceField):  # type: ignore[type-arg]
    def label_from_instance(self, obj: Any) -> str:
        match obj:
            case Endpoint():
                return f"{obj.name}: {obj.model}" + (", scripted" if obj.scripted else "")
            case Worker():
                return obj.name + ("" if obj.alive else f", {words.lowered(condition(obj, timezone.now()).word)}")
            case Profile():
                return f"{obj.name} {obj.content_sha256[:8]}"
        return str(obj)


class RunForm(forms.Form):
    """Profile, endpoint and worker, and how the run is narrower than its profile. The bundle is the profile's."""

    profile = _Newest(queryset=Profile.objects.none(), empty_label=None)
    endpoint = _Newest(queryset=Endpoint.objects.none(), empty_label=None)
    worker = _Newest(queryset=Worker.objects.none(), empty_label=None)
    tasks = forms.MultipleChoiceField(required=False, widget=forms.CheckboxSelectMultiple)
    max_steps = forms.IntegerField(required=False, min_value=1, label="Steps, each task", help_text=_OPTIONAL)
    max_trial_seconds = forms.IntegerField(
        required=False, min_value=1, label="Seconds, each trial", help_text=_OPTIONAL
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        slim = Profile.objects.filter(startable=True).order_by("-id")
        self.fields["profile"].queryset = slim  # type: ignore[attr-defined]
        self.fields["endpoint"].queryset = Endpoint.objects.filter(active=True).order_by("name")  # type: ignore[attr-defined]
        self.fields["worker"].queryset = Worker.objects.filter(lost_declared_at=None)  # type: ignore[attr-defined]
        self.fields["tasks"].choices = [(task, task) for task in _tasks(list(slim))]  # type: ignore[attr-defined]

    @property
    def ready(self) -> bool:
        """Whether there is anything to choose from in each of the three."""
        return all(self.fields[name].queryset.exists() for name in ("profile", "endpoint", "worker"))  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        profile = cleaned.get("profile")
        if profile is not None:
            cleaned["bundle"] = _bundle_of(profile)
        cleaned["tasks"] = cleaned.get("tasks") or None
        return cleaned


def _tasks(profiles: list[Profile]) -> list[str]:
    """The tasks of all startable profiles, in the order of the newest one that names them."""
    names: dict[str, None] = {}
    for profile in profiles:
        try:
            typed = registry.loaded_profile(profile).v2
        except DocumentError:
            continue
        names |= dict.fromkeys(typed.suites.environment.cases if typed else ())
    return list(names)


def _bundle_of(profile: Profile) -> TaskBundle:
    try:
        typed = registry.loaded_profile(profile).v2
    except DocumentError as error:
        raise ValidationError(f"The stored profile is not valid: {error.sentence}") from error
    if typed is None:
        raise ValidationError("This profile's suites do not run here; choose another one.")
    reference = typed.suites.environment.task_bundle
    try:
        return registry.find_bundle(reference.name, revision=reference.revision)
    except UnknownName as error:
        raise ValidationError(error.sentence) from error


class ReviewForm(forms.Form):
    """A reviewer's note; the hash is what they looked at."""

    note = forms.CharField(required=False, max_length=2000, widget=forms.Textarea(attrs={"rows": 3}))
    manifest_sha256 = forms.CharField(max_length=64)
