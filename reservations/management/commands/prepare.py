"""All that must be done before the parts start, in one process: starting Python and Django is what takes the time."""

import json
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.db import Error as DatabaseError
from django.db import OperationalError, connection
from django.utils import timezone

from reservations.services import setup


class Command(BaseCommand):
    help = "Brings database, translations and static files up to date; prints one line of JSON with the set-up link."
    requires_system_checks = []  # migrate runs those that matter; a full run costs a second of every start

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--demo", action="store_true", help="fill an empty installation with the demo lab")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            connection.ensure_connection()
        except OperationalError as error:
            self._answer(trouble=f"The database cannot be reached ({_first_line(error)}): start it or correct DATABASE_URL.")
            raise SystemExit(1) from error
        call_command("compile_translations", verbosity=0)
        try:
            call_command("migrate", interactive=False, verbosity=0)
            call_command("createcachetable", verbosity=0)
        except DatabaseError as error:
            self._answer(trouble=f"The database cannot be brought up to date ({_first_line(error)}): see docs/operations.md.")
            raise
        call_command("collectstatic", interactive=False, verbosity=0)
        if options["demo"] and not any(settings.SCENARIO_DIR.glob("*.json")):
            call_command("demo_lab", verbosity=0)
        self._answer(setup_link=setup.link(now=timezone.now()))

    def _answer(self, **said: str | None) -> None:
        self.stdout.write(json.dumps(said))


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
