"""`manage.py show_names`: says how members are named to others, or sets it (M1)."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from reservations import names, queries
from reservations.services import rulebook


class Command(BaseCommand):
    help = "Say how members are named in the schedule and in wall_time.csv, or set it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("way", nargs="?", choices=names.WAYS)

    def handle(self, *args: Any, **options: Any) -> None:
        lab = queries.lab_facts()
        if not lab.is_set_up:
            raise CommandError("This lab is not set up yet.")
        if options["way"] is None:
            self.stdout.write(lab.show_names)
            return
        rulebook.set_show_names(options["way"], by=None, now=timezone.now(), origin="command")
        self.stdout.write(f"Names are shown as: {options['way']}.")
