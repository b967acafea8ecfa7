from django.http import HttpRequest, HttpResponse
def profiles(request: HttpRequest) -> HttpResponse: return HttpResponse("")
profile=bundles=bundle=endpoints=endpoint=profiles
workers=worker=profiles
