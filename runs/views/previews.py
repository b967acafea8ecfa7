from django.http import HttpRequest, HttpResponse
def run_new(request: HttpRequest) -> HttpResponse: return HttpResponse("")
preview_page=confirm=run_new
