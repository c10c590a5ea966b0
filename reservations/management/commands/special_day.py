"""`manage.py special_day`: lists the lab's own special days, or makes a date a working or a rest day (A5)."""

from __future__ import annotations

from datetime import date
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from reservations import queries
from reservations.models import SpecialDay
from reservations.services import rulebook

_KINDS = {"working": True, "rest": False, "plain": None}


class Command(BaseCommand):
    help = "List special days, or make a date a working day, a rest day, or plain again (public calendar and weekday)."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("day", nargs="?", help="such as 2027-02-08")
        parser.add_argument("kind", nargs="?", choices=sorted(_KINDS))
        parser.add_argument("--name", default="", help="such as 春节")

    def handle(self, *args: Any, **options: Any) -> None:
        if not queries.lab_facts().is_set_up:
            raise CommandError("This lab is not set up yet.")
        if options["day"] is None:
            for row in SpecialDay.objects.all():
                self.stdout.write(f"{row.day} {'working' if row.is_working else 'rest'} {row.name}".rstrip())
            return
        try:
            day = date.fromisoformat(options["day"])
        except ValueError:
            raise CommandError("A day is written like 2027-02-08.") from None
        if options["kind"] is None:
            raise CommandError(f"Say what it is: {', '.join(sorted(_KINDS))}.")
        rulebook.set_special_day(day, _KINDS[options["kind"]], options["name"], by=None, now=timezone.now(), origin="command")
        self.stdout.write(f"{day} is {options['kind']} from now on. What is booked keeps its price.")
