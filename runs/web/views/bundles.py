"""The pages of task bundles: the list, one revision with its difference to the reviewed one, approving, retiring."""

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from benchsite.lib.pages import form_errors
from runs.models import BundleStatus, TaskBundle
from runs.services import access, reviewing
from runs.services.refusals import Refusal
from runs.web.forms import ReviewForm
from runs.web.presenting import bundles as presenting

_ANOTHER = "The page showed another manifest than the one that is stored. Review this one, then approve it."


@require_safe
def bundles(request: HttpRequest) -> HttpResponse:
    access.require(request.user, access.VIEW)
    found = TaskBundle.objects.defer("manifest", "certification")
    return render(request, "runs/bundles.html", {"bundles": found})


@require_safe
def bundle(request: HttpRequest, name: str, revision: int) -> HttpResponse:
    return _page(request, access.bundle_or_404(request.user, name, revision), ReviewForm())


def _page(request: HttpRequest, found: TaskBundle, form: ReviewForm) -> HttpResponse:
    before = reviewing.reviewed_before(found)
    may_review = access.may(request.user, access.REVIEW_BUNDLE)
    context = {
        "bundle": found,
        "page": presenting.bundle_page(found.manifest),
        "files": presenting.files_words(found),
        "before": before,
        "changes": presenting.changes(before.manifest, found.manifest) if before else [],
        "others": TaskBundle.objects.filter(name=found.name).exclude(pk=found.pk).defer("manifest", "certification"),
        "may_review": may_review and found.status == BundleStatus.CERTIFIED,
        "may_retire": may_review and found.status == BundleStatus.REVIEWED,
        "form": form,
    }
    return render(request, "runs/bundle.html", context)


@require_POST
def review(request: HttpRequest, name: str, revision: int) -> HttpResponse:
    """Approve what was shown: the hash in the form must be the stored one. What is refused keeps the note."""
    found = access.bundle_or_404(request.user, name, revision, access.REVIEW_BUNDLE)
    form = ReviewForm(request.POST)
    try:
        if form.is_valid():
            if form.cleaned_data["manifest_sha256"] != found.manifest_sha256:
                raise reviewing.BundleRefused(_ANOTHER, code="bundle.another_manifest")
            reviewing.review(found, user=request.user, note=form.cleaned_data["note"])
            messages.info(request, f"{found} is reviewed and can run now. It never changes again.")
            return redirect("bundle", name=name, revision=revision)
    except Refusal as error:
        form.add_error(None, ValidationError(error.sentence, code=error.code))
    if TaskBundle.objects.filter(pk=found.pk, status=BundleStatus.CERTIFIED).exists():
        return _page(request, found, form)
    for problem in form_errors(form):  # nobody can approve it any more, so there is no form to show again
        messages.warning(request, problem.sentence, "attention")
    return redirect("bundle", name=name, revision=revision)


@require_POST
def retire(request: HttpRequest, name: str, revision: int) -> HttpResponse:
    found = access.bundle_or_404(request.user, name, revision, access.REVIEW_BUNDLE)
    try:
        reviewing.retire(found, user=request.user)
    except Refusal as error:
        messages.warning(request, error.sentence, "attention")
    else:
        messages.info(request, f"{found} is retired. Past runs keep it.")
    return redirect("bundle", name=name, revision=revision)
