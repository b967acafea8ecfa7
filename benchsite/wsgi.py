"""The WSGI application that granian serves."""

import os

from django.core.wsgi import get_wsgi_application
from django.urls import reverse

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchsite.settings")
application = get_wsgi_application()
reverse("overview")  # all pages and what they import are loaded now, not by the first who ask for one
