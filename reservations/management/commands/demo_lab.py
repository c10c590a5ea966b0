"""`manage.py demo_lab`: fills an empty installation with the demonstration lab, or says how to get into the one here."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone, translation

from reservations.services import demo


class Command(BaseCommand):
    help = "Load the demonstration lab into an empty installation and print how to sign in."

    def handle(self, *args: Any, **options: Any) -> None:
        access = demo.access()
        if access is None:
            try:
                with translation.override("zh-hans"):
                    access = demo.load(now=timezone.now())
            except demo.NotDemo:
                folder = settings.DATA_DIR
                raise CommandError(
                    f"The data folder {folder} holds a real lab. Start that lab with DATA_DIR={folder} make run, or the "
                    f"demonstration in a folder of its own with DATA_DIR={folder}-2 make demo"
                ) from None
        self.stdout.write(f"Sign in as {access.admin.email} (admin) or lin@lab.example (student), password {access.password}")
