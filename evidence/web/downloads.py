"""Downloads of evidence by id: permissions asked, hashes verified while it streams, never rendered."""

import re
from urllib.parse import quote
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from benchsite.lib import words
from benchsite.lib.visible_text import visible
from evidence.models import Artifact, ExperimentFile
from evidence.register import store
from evidence.register.export import ExportRefused, export
from evidence.register.kinds import TITLES
from evidence.register.reading import TEXT_WINDOW, text_window
from evidence.register.streaming import NoSuchEvidence, artifact_for, record_read
from runs.models import AuditKind
from runs.services import access, audit

_POLICY = "sandbox; default-src 'none'; frame-ancestors 'none'"
_REFUSED = "The archive is refused while this run is quarantined."
_LOST = "The storage no longer holds every file, so there is no archive; single files can still be read."
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


def artifact_or_404(request: HttpRequest, key: str) -> Artifact:
    """The file for this reader; private ones are for operators. 404 when unknown, 403 when the role is not enough."""
    try:
        return artifact_for(request.user, key)
    except NoSuchEvidence as error:
        raise Http404("No such evidence.") from error


@require_safe
def download(request: HttpRequest, key: str) -> HttpResponseBase:
    """The bytes as an attachment. Ranges and conditions are honoured; a read is audited, a condition that holds not."""
    artifact = artifact_or_404(request, key)
    if not artifact.readable:
        raise Http404("There is nothing to download.")
    tag = f'"{artifact.sha256}"'
    if request.headers.get("If-None-Match") == tag:
        return _sealed(HttpResponse(status=304), tag)
    part = _asked_part(request, artifact, tag)
    if part is not None and part[0] >= part[1]:
        response = HttpResponse(status=416)
        response["Content-Range"] = f"bytes */{artifact.size}"
        return _sealed(response, tag)
    return _sealed(_body(request, artifact, part), tag)


@require_safe
def handed_in(request: HttpRequest, key: str) -> HttpResponseBase:
    """A file that came in with a job, for operators alone: as an attachment, its hash checked, the read audited."""
    access.require(request.user, access.READ_PRIVATE)
    file = ExperimentFile.objects.select_related("experiment").filter(key=key).first()
    if file is None or not file.readable:
        raise Http404("There is nothing to download.")
    tag = f'"{file.sha256}"'
    if request.headers.get("If-None-Match") == tag:
        return _sealed(HttpResponse(status=304), tag)
    response: HttpResponseBase
    if request.method == "HEAD":
        response = HttpResponse(content_type="application/octet-stream")
    else:
        detail = {"sha256": file.sha256, "bytes": file.size, "experiment": file.experiment.key}
        audit.record(AuditKind.DOWNLOAD, user=request.user, subject=file.path, detail=detail)
        response = StreamingHttpResponse(store.chunks(file), content_type="application/octet-stream")
    response["Content-Length"] = str(file.size)
    name = file.path.rpartition("/")[2]
    response["Content-Disposition"] = f"attachment; filename*=UTF-8''{quote(name, safe='')}"
    _sealed(response, tag)
    del response["Accept-Ranges"]
    return response


def _body(request: HttpRequest, artifact: Artifact, part: tuple[int, int] | None) -> HttpResponseBase:
    start, end = part or (0, artifact.size)
    response: HttpResponseBase
    if request.method == "HEAD":
        response = HttpResponse(content_type="application/octet-stream")
    else:
        record_read(request.user, artifact, octets=end - start)
        response = StreamingHttpResponse(
            store.chunks(artifact) if part is None else store.range_chunks(artifact, *part),
            content_type="application/octet-stream",
        )
    response["Content-Length"] = str(end - start)
    response["Content-Disposition"] = f"attachment; filename*=UTF-8''{quote(artifact.name, safe='')}"
    if part is not None:
        response.status_code = 206
        response["Content-Range"] = f"bytes {start}-{end - 1}/{artifact.size}"
    return response


def _asked_part(request: HttpRequest, artifact: Artifact, tag: str) -> tuple[int, int] | None:
    """(start, end) of a single range, end exclusive; None for the whole. An empty one cannot be satisfied."""
    condition = request.headers.get("If-Range", tag)
    found = _RANGE.fullmatch(request.headers.get("Range", ""))
    if found is None or condition != tag or (not found[1] and not found[2]):
        return None
    if not found[1]:
        return max(0, artifact.size - int(found[2])), artifact.size if int(found[2]) else 0
    start, end = int(found[1]), int(found[2]) + 1 if found[2] else artifact.size
    return start, min(end, artifact.size)


def _sealed(response: HttpResponseBase, tag: str) -> HttpResponseBase:
    """Whatever an agent wrote, no browser renders, sniffs, frames or keeps it."""
    response["ETag"] = tag
    response["Accept-Ranges"] = "bytes"
    response["Content-Security-Policy"] = _POLICY
    response["X-Content-Type-Options"] = "nosniff"
    response["Cache-Control"] = "private, no-store"
    return response


@require_safe
def archive(request: HttpRequest, key: UUID) -> HttpResponseBase:
    """Everything that this reader may have, as one archive with hashes; refused while a known secret is inside."""
    run = access.run_or_404(request.user, key)
    private = access.may(request.user, access.READ_PRIVATE)
    try:
        found = export(run, public_only=not private)
    except ExportRefused as error:
        messages.warning(request, error.sentence if private else _REFUSED, "attention")
        return redirect("evidence", key=run.key)
    except OSError as error:
        said = error.sentence if isinstance(error, store.StorageFails) else _LOST
        messages.warning(request, said, "attention")
        return redirect("evidence", key=run.key)
    audit.record(
        AuditKind.DOWNLOAD, user=request.user, run_id=run.pk, subject=found.name, detail={"files": found.files}
    )
    response = StreamingHttpResponse(found.chunks, content_type="application/zip")
    response["Content-Length"] = str(found.size)
    response["Content-Disposition"] = f'attachment; filename="{found.name}"'
    response["Content-Security-Policy"] = _POLICY
    response["Cache-Control"] = "private, no-store"
    return response


@require_safe
def text(request: HttpRequest, key: str) -> HttpResponse:
    """A window of the file as escaped text inside a page of ours; huge files are read from where one looks."""
    artifact = artifact_or_404(request, key)
    if not artifact.readable:
        raise PermissionDenied("There is nothing to read.") if artifact.state == "quarantined" else Http404()
    asked = request.GET.get("from", "")
    start = int(asked) if asked.isdecimal() and len(asked) < 16 else (None if asked == "end" else 0)
    window = text_window(artifact, start)
    context = {
        "artifact": artifact,
        "run_key": artifact.run.key,
        "path": visible(artifact.path),
        "title": TITLES.get(artifact.kind, "Other"),
        "window": window,
        "size": words.size(artifact.size),
        "shown": f"bytes {window.start:,} to {window.end:,} of {artifact.size:,}",
        "before": max(0, window.start - TEXT_WINDOW) if window.start else None,
        "after": window.end if window.end < artifact.size else None,
    }
    return render(request, "evidence/text.html", context)
