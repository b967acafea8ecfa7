"""Forms of a new run and of a bundle's review."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.text import capfirst

from benchsite.lib import words
from benchsite.lib.problems import DocumentError, Problem
from benchsite.lib.visible_text import visible
from runs.models import Endpoint, Profile, Worker
from runs.services import registry
from runs.services.previewing import Choice
from runs.services.refusals import WHOLE_WANTED, BadInput, NotWhole, whole_number
from runs.services.workers import condition

_OPTIONAL = "Empty: the profile's own limit."
_NO_SUITE = "suite_not_installed"
_NONE_CHOSEN = "Choose one {word} from the list."
_NOT_OFFERED = "This {word} is no longer available. Choose another one."


class _Newest(forms.ModelChoiceField):  # type: ignore[type-arg]
    def clean(self, value: Any) -> Any:
        """What is not there, or not named, is refused with the code that commands and tools give too."""
        try:
            return super().clean(value)
        except ValidationError as error:
            word = self.queryset.model._meta.model_name  # type: ignore[union-attr]
            sentence = (_NOT_OFFERED if value else _NONE_CHOSEN).format(word=word)
            raise ValidationError(sentence, code=f"input.unknown_{word}") from error

    def label_from_instance(self, obj: Any) -> str:
        match obj:
            case Endpoint():
                return f"{obj.name}: {obj.model}" + (", scripted" if obj.scripted else "")
            case Worker():
                return obj.name + ("" if obj.alive else f", {words.lowered(condition(obj, timezone.now()).word)}")
            case Profile():
                return f"{obj.name} {obj.content_sha256[:8]}"
        return str(obj)


class _WholeNumber(forms.IntegerField):
    def to_python(self, value: Any) -> int | None:
        """Read as by the commands: `5.0` is no whole number."""
        if value in self.empty_values:
            return None
        try:
            return whole_number(str(self.label), str(value))
        except NotWhole as error:
            raise ValidationError(f"{capfirst(WHOLE_WANTED)}.", code=error.code) from error


class _Tasks(forms.MultipleChoiceField):
    """Offers the tasks of the startable profiles; whether one belongs to the chosen profile, the preview decides."""

    def valid_value(self, value: Any) -> bool:
        return True


def _at_least_1() -> forms.NumberInput:
    """Only a hint for the browser: the preview refuses what is too small or too large, for all faces alike."""
    return forms.NumberInput(attrs={"min": 1})


class RunForm(forms.Form):
    """Profile, endpoint and worker, and how the run is narrower than its profile. The bundle is the profile's."""

    profile = _Newest(queryset=Profile.objects.none(), empty_label=None)
    endpoint = _Newest(queryset=Endpoint.objects.none(), empty_label=None)
    worker = _Newest(queryset=Worker.objects.none(), empty_label=None)
    tasks = _Tasks(
        required=False,
        widget=forms.CheckboxSelectMultiple,
        label="Tasks",
        help_text="None selected: all of them. Tasks run in the profile's order.",
    )
    max_steps = _WholeNumber(required=False, widget=_at_least_1(), label="Steps per task", help_text=_OPTIONAL)
    max_trial_seconds = _WholeNumber(
        required=False, widget=_at_least_1(), label="Seconds per trial", help_text=_OPTIONAL
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        slim = Profile.objects.filter(startable=True).order_by("-id")
        profile: Any = self.fields["profile"]
        profile.queryset = Profile.objects.all()  # one that does not run here is refused with its reason
        profile.choices = [(row.pk, profile.label_from_instance(row)) for row in slim]
        self.fields["endpoint"].queryset = Endpoint.objects.filter(active=True).order_by("name")  # type: ignore[attr-defined]
        workers: Any = self.fields["worker"]
        workers.queryset = Worker.objects.filter(lost_declared_at=None)
        # One that serves stands first, and so is what is chosen when nobody chooses.
        serving_first = sorted(workers.queryset.order_by("name"), key=lambda worker: not worker.alive)
        workers.choices = [(row.pk, workers.label_from_instance(row)) for row in serving_first]
        self.fields["tasks"].choices = [(task, task) for task in _tasks(list(slim))]  # type: ignore[attr-defined]

    @property
    def ready(self) -> bool:
        """Whether there is anything to choose from in each of the three."""
        return all(list(self.fields[name].choices) for name in ("profile", "endpoint", "worker"))  # type: ignore[attr-defined]

    @property
    def choice(self) -> Choice:
        """What a valid form chooses."""
        chosen: dict[str, Any] = self.cleaned_data
        names = ("tasks", "max_trial_seconds", "max_steps")
        narrowing = {name: chosen.get(name) for name in names}
        return Choice(chosen["profile"], chosen["bundle"], chosen["endpoint"], chosen["worker"], **narrowing)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        profile = cleaned.get("profile")
        if profile is not None:
            try:
                cleaned["bundle"] = registry.bundle_of(profile)
            except BadInput as error:
                self.refuse(error, otherwise="profile")
        cleaned["tasks"] = cleaned.get("tasks") or None
        return cleaned

    def refuse(self, refusal: BadInput, *, otherwise: str | None = None) -> None:
        """Put what was refused beside the fields that it is about, each with the code that commands and tools give.

        ``otherwise`` is the field of what is about no field by itself; None: the form as a whole.
        """
        if not refusal.problems:
            self.add_error(otherwise, ValidationError(refusal.sentence, code=refusal.code))
        for problem in refusal.problems:
            place = problem.path.partition("[")[0]
            field = "profile" if problem.code == _NO_SUITE else place if place in self.fields else otherwise
            self.add_error(field, ValidationError(self._sentence(problem, refusal), code=problem.code))

    def _sentence(self, problem: Problem, refusal: BadInput) -> str:
        """A problem without its path, which is no word of this page; a task by its name."""
        sentence = f"{capfirst(problem.sentence)}."
        place, _, index = problem.path.partition("[")
        if place != "tasks" or not index:
            return sentence
        name = visible(self.cleaned_data["tasks"][int(index.rstrip("]"))])
        return f"{name}: {words.lowered(sentence)} {refusal.remedy}".strip()


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


class ReviewForm(forms.Form):
    """A reviewer's note; the hash is what they looked at."""

    note = forms.CharField(
        required=False, max_length=2000, label="Note for the record", widget=forms.Textarea(attrs={"rows": 3})
    )
    manifest_sha256 = forms.CharField(
        max_length=64,
        widget=forms.HiddenInput,
        error_messages={"required": "The page did not say which manifest it showed. Reload it, then approve."},
    )
