"""Which task bundles are there, what changed since the reviewed revision, and who approves one?"""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from runs import access, reviewing
from runs.forms import ReviewForm
from runs.models import BundleStatus, TaskBundle
from runs.presenting import bundles as presenting
from runs.refusals import Refusal


@require_safe
def bundles(request: HttpRequest) -> HttpResponse:
    access.require(request.user, access.VIEW)
    found = TaskBundle.objects.defer("manifest", "certification")
    return render(request, "runs/bundles.html", {"bundles": found})


@require_safe
def bundle(request: HttpRequest, name: str, revision: int) -> HttpResponse:
    found = access.bundle_or_404(request.user, name, revision)
    before = _reviewed_before(found)
    may_review = access.may(request.user, access.REVIEW_BUNDLE)
    context = {
        "bundle": found,
        "page": presenting.bundle_page(found.manifest),
        "before": before,
        "changes": presenting.changes(before.manifest, found.manifest) if before else [],
        "others": TaskBundle.objects.filter(name=name).exclude(pk=found.pk).defer("manifest", "certification"),
        "may_review": may_review and found.status == BundleStatus.CERTIFIED,
        "may_retire": may_review and found.status == BundleStatus.REVIEWED,
        "form": ReviewForm(initial={"manifest_sha256": found.manifest_sha256}),
    }
    return render(request, "runs/bundle.html", context)


@require_POST
def review(request: HttpRequest, name: str, revision: int) -> HttpResponse:
    """Approve what was shown: the hash in the form must be the stored one."""
    found = access.bundle_or_404(request.user, name, revision, access.REVIEW_BUNDLE)
    form = ReviewForm(request.POST)
    if not form.is_valid() or form.cleaned_data["manifest_sha256"] != found.manifest_sha256:
        messages.warning(request, "Nothing was approved: the page showed another manifest.", "attention")
        return redirect("bundle", name=name, revision=revision)
    try:
        reviewing.review(found, user=request.user, note=form.cleaned_data["note"])
    except Refusal as error:
        messages.warning(request, error.sentence, "attention")
    else:
        messages.info(request, f"{found} is reviewed and may run now. It never changes again.")
    return redirect("bundle", name=name, revision=revision)


@require_POST
def retire(request: HttpRequest, name: str, revision: int) -> HttpResponse:
    found = access.bundle_or_404(request.user, name, revision, access.REVIEW_BUNDLE)
    try:
        reviewing.retire(found, user=request.user)
    except Refusal as error:
        messages.warning(request, error.sentence, "attention")
    else:
        messages.info(request, f"{found} is retired. Runs that used it keep it.")
    return redirect("bundle", name=name, revision=revision)


def _reviewed_before(bundle: TaskBundle) -> TaskBundle | None:
    """The newest earlier revision that was once reviewed."""
    earlier = TaskBundle.objects.filter(name=bundle.name, revision__lt=bundle.revision, reviewed_at__isnull=False)
    return earlier.order_by("-revision").first()
