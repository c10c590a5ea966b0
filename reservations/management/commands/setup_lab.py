"""`manage.py setup_lab`: sets the lab up without a browser (unattended installation)."""

from __future__ import annotations

import json
import os
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from reservations.models import Member
from reservations.services import people, setup


class Command(BaseCommand):
    help = "Name the lab, set zone, language and policy, and make its first admin (password from LABGPU_ADMIN_PASSWORD)."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--name", required=True)
        parser.add_argument("--zone", default="Asia/Shanghai")
        parser.add_argument("--language", default="zh-hans", choices=["zh-hans", "en"])
        parser.add_argument("--policy", default="{}", help="JSON; what is not named keeps the balanced preset")
        parser.add_argument("--admin-email", required=True)
        parser.add_argument("--admin-name", required=True)
        parser.add_argument("--simulated", action="store_true", help="say on every page that the data is simulated")

    def handle(self, *args: Any, **options: Any) -> None:
        password = os.environ.get("LABGPU_ADMIN_PASSWORD", "")
        if not password:
            raise CommandError("Set LABGPU_ADMIN_PASSWORD to the first admin's password.")
        if not setup.is_open():
            raise CommandError("This lab has its admin already. Sign in and change it there.")
        try:
            people.set_up(
                lab_name=options["name"], zone=options["zone"], language=options["language"], admin=None,
                now=timezone.now(), policy=json.loads(options["policy"]), simulated=options["simulated"],
            )
        except ValueError as problem:
            raise CommandError(f"The lab was not set up: {problem}.") from None
        Member.objects.create_user(
            options["admin_email"], password, name=options["admin_name"], role="staff", is_admin=True, is_arbiter=True,
            is_superuser=True, approval=Member.Approval.APPROVED,
        )
        setup.close()
        self.stdout.write("The lab is set up.")
