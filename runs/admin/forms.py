"""Admin forms of endpoints and profiles, validated by the same functions as files and commands."""

import re
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.text import capfirst

from benchsite.lib.problems import DocumentError
from runs.documents.endpoints import SCHEMA, parse_endpoint
from runs.documents.profile.loading import load_profile
from runs.documents.spending import Budget, Budgets, Prices, RateLimits
from runs.models import Endpoint, Profile

_ALIAS = "Begin with a letter or a digit; then letters, digits and . _ : / @ + - are taken, without blanks."
_FORMED = {
    "name": "Begin with a small letter or a digit; then small letters, digits and . _ - are taken.",
    "model": _ALIAS,
    "served_models": _ALIAS,
    "ca_file": "Name the file by its whole path, as /etc/benchsite/model-ca.pem.",
    "headers": "A name has letters, digits and dashes; a value 1 to 500 visible ASCII characters.",
    "credential.name": "Name a variable in capital letters, or a file by its whole path, as /run/secrets/model-key.",
}
_FIELDS = {"credential": "credential_kind", "credential.kind": "credential_kind", "credential.name": "credential_name"}


_WIDE = forms.TextInput(attrs={"class": "vTextField"})
# Where a form's words differ from a document's.
_SAID = {"endpoint.private_address": "The base URL names a private address. Tick this if that is meant."}


class EndpointForm(forms.ModelForm):  # type: ignore[type-arg]
    """The parts of a record; the record itself is built and validated as for files and commands."""

    credential_kind = forms.ChoiceField(choices=[("none", "none"), ("env", "environment variable"), ("file", "file")])
    credential_name = forms.CharField(
        required=False,
        max_length=255,
        widget=_WIDE,
        help_text="The variable's name or the file's path on the worker; never the value.",
    )
    served_models = forms.CharField(
        label="Other names",
        required=False,
        max_length=2_500,
        widget=_WIDE,
        help_text="The names besides the alias with which it may answer, such as a dated version; separate by commas.",
    )
    private_addresses = forms.BooleanField(
        required=False,
        help_text="Let the route direct lead to a private address, such as 10.0.0.7; link-local ones are never used.",
    )
    ca_file = forms.CharField(
        label="CA file",
        required=False,
        max_length=255,
        widget=_WIDE,
        help_text="For a certificate of an authority of your own: the path on the worker of its PEM file.",
    )
    headers = forms.CharField(
        required=False,
        max_length=10_000,
        widget=forms.Textarea(attrs={"rows": 3, "class": "vLargeTextField"}),
        help_text="One a line, as OpenAI-Organization: org-7, for each request. No secrets: every reader sees them.",
    )
    price_currency = forms.CharField(
        label="Currency", required=False, max_length=3, help_text="Of prices and budgets, such as USD."
    )
    price_date = forms.CharField(label="Prices as of", required=False, max_length=10, help_text="Such as 2026-11-30.")
    price_input = forms.CharField(label="Input price", required=False, max_length=20)
    price_cached_input = forms.CharField(
        label="Cached input price", required=False, max_length=20, help_text="Empty when it is the same."
    )
    price_output = forms.CharField(label="Output price", required=False, max_length=20)
    requests_per_minute = forms.IntegerField(required=False)
    tokens_per_minute = forms.IntegerField(required=False)
    concurrent_requests = forms.IntegerField(required=False)
    trial_tokens = forms.IntegerField(label="Tokens, each trial", required=False)
    trial_money = forms.CharField(label="Money, each trial", required=False, max_length=20)
    run_tokens = forms.IntegerField(label="Tokens, each run", required=False)
    run_money = forms.CharField(label="Money, each run", required=False, max_length=20)
    day_tokens = forms.IntegerField(label="Tokens, each day", required=False)
    day_money = forms.CharField(label="Money, each day", required=False, max_length=20)
    total_tokens = forms.IntegerField(label="Tokens, all runs", required=False)
    total_money = forms.CharField(label="Money, all runs", required=False, max_length=20)
    request_timeout_s = forms.IntegerField(
        label="Request timeout", initial=120, min_value=1, max_value=600, help_text="Seconds for one request."
    )

    class Meta:
        model = Endpoint
        fields = ("name", "base_url", "model", "route", "scripted")
        labels = {"base_url": "Base URL"}
        help_texts = {
            "base_url": "Where the OpenAI-compatible API begins, as http://127.0.0.1:8080/v1; no slash at the end.",
            "model": "The model alias that requests name.",
            "route": "host-gateway for a loopback address of the worker's own host, direct for every other one.",
            "scripted": "Returns fixed answers and is no model; every page of its runs says so.",
        }

    def clean_headers(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for number, line in enumerate(self.cleaned_data["headers"].splitlines(), 1):
            name, colon, value = line.partition(":")
            if not line.strip():
                continue
            if not colon or name.strip() in found:
                why = "has no colon; write it as Name: value" if not colon else "names a header a second time"
                raise ValidationError(f"Line {number} {why}.", code="bad_endpoint.bad_format")
            found[name.strip()] = value.strip()
        return found

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        kind = cleaned.get("credential_kind")
        credential = {"kind": kind} if kind == "none" else {"kind": kind, "name": cleaned.get("credential_name", "")}
        record: dict[str, Any] = {
            "schema": SCHEMA,
            "credential": credential,
            "controls": ["max_tokens"],
            "served_models": _parts(cleaned.get("served_models")),
            "private_addresses": "allowed" if cleaned.get("private_addresses") else "refused",
            "ca_file": cleaned.get("ca_file") or None,
            "headers": cleaned.get("headers", {}),
            "prices": _prices(cleaned),
            "limits": _object({name: cleaned.get(name) for name in RateLimits.model_fields}),
            "budgets": _object({scope: _budget(cleaned, scope) for scope in Budgets.model_fields}),
            "request_timeout_s": cleaned.get("request_timeout_s") or 120,
            **{name: cleaned.get(name) for name in ("name", "base_url", "model", "route", "scripted")},
        }
        try:
            parse_endpoint(record)
        except DocumentError as error:
            self._refuse(error)
        cleaned["record"] = record
        return cleaned

    def _refuse(self, error: DocumentError) -> None:
        """Put each problem of the record beside the field that it is about; what is amiss there already is enough."""
        amiss = set(self.errors)
        for problem in error.problems:
            whole = problem.path if problem.path in _FIELDS else re.split(r"[\[.]", problem.path)[0]  # a list's field
            place = _FIELDS.get(whole) or _spending_field(problem.path) or whole
            field = place if place in self.fields else None
            formed = _FORMED.get(whole) if problem.code == "bad_endpoint.bad_format" else None
            if field not in amiss:
                sentence = formed or _SAID.get(problem.code) or f"{capfirst(problem.sentence)}."
                self.add_error(field, ValidationError(sentence, code=problem.code))

    def validate_constraints(self) -> None:
        """The next version is made by the registry, which also takes the former one out of use."""


def _object(values: dict[str, Any]) -> dict[str, Any] | None:
    """What is filled in; None when nothing is."""
    return {name: value for name, value in values.items() if value not in (None, "")} or None


def _prices(cleaned: dict[str, Any]) -> dict[str, Any] | None:
    return _object({name: cleaned.get(f"price_{name}") for name in Prices.model_fields})


def _budget(cleaned: dict[str, Any], scope: str) -> dict[str, Any] | None:
    return _object({name: cleaned.get(f"{scope}_{name}") for name in Budget.model_fields})


def _spending_field(path: str) -> str:
    """The field of a problem of prices, limits or budgets; empty for another's."""
    match path.split("."):
        case ["prices"]:
            return "price_input"
        case ["prices", name]:
            return f"price_{name}"
        case ["limits", name]:
            return name
        case ["budgets", scope, name]:
            return f"{scope}_{name}"
    return ""


def _parts(text: str | None) -> list[str]:
    """What stands between the commas of a field, without blanks."""
    return [part.strip() for part in (text or "").split(",") if part.strip()]


class ProfileForm(forms.ModelForm):  # type: ignore[type-arg]
    """A profile is a file; its bytes are kept as they are."""

    file = forms.FileField(help_text="The profile's JSON file, at most 256 KiB.")

    class Meta:
        model = Profile
        fields: tuple[str, ...] = ()

    def clean_file(self) -> bytes:
        upload = self.cleaned_data["file"]
        if upload.size > 256 * 1024:
            raise ValidationError("The file is larger than 256 KiB.")
        data: bytes = upload.read()
        try:
            self.instance.content_sha256 = load_profile(data).content_sha256
        except DocumentError as error:
            raise ValidationError(
                [ValidationError(f"{problem}.", code=problem.code) for problem in error.problems]
            ) from error
        return data
