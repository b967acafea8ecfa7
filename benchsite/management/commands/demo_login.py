"""`manage.py demo_login`: print a link that signs in once, as an administrator of the demo."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError

from benchsite.accounts.views import link_for


class Command(BaseCommand):
    help = "Print a link that signs in once as the demo's administrator; refused on a production site."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--port", type=int, default=8000, help="the port of the site (%(default)s)")

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.PRODUCTION:
            raise CommandError("A production site has no one-time login; use manage.py createsuperuser.", returncode=2)
        user, made = User.objects.get_or_create(username="demo", defaults={"is_staff": True, "is_superuser": True})
        if made:
            user.set_unusable_password()
            user.save()
        self.stdout.write(f"One-time login: http://127.0.0.1:{options['port']}{link_for(user)}")
