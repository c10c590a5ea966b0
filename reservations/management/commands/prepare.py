"""All that must be done before the parts start, in one process: starting Python and Django is what takes the time."""

import json
from argparse import ArgumentParser
from io import StringIO
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import Error as DatabaseError
from django.db import OperationalError, connection
from django.utils import timezone

from reservations.services import setup


class Command(BaseCommand):
    help = "Brings database, translations and static files up to date; prints one line of JSON with how to get in."
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
        sign_in = self._demo() if options["demo"] else None
        self._answer(setup_link=setup.link(now=timezone.now()), sign_in=sign_in)

    def _demo(self) -> str:
        """Makes the demo lab unless it is here; how to sign in to it."""
        said = StringIO()
        try:
            call_command("demo_lab", stdout=said)
        except CommandError as error:
            self._answer(trouble=str(error))
            raise SystemExit(1) from error
        return said.getvalue().strip()

    def _answer(self, **said: str | None) -> None:
        self.stdout.write(json.dumps(said))


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
