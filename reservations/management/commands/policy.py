"""`manage.py policy`: shows the lab's policy, says what a change would do, and makes it."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone, translation

from reservations import labels, queries
from reservations.rules.policy import PRESETS, BadPolicy
from reservations.rules.refusal import Refusal, Refused
from reservations.services import rulebook


class Command(BaseCommand):
    help = "Show the policy; with --preset or --set say what the change would refuse or allow; with --reason make it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--preset", choices=sorted(PRESETS), help="start from this preset instead of what is in force")
        parser.add_argument("--set", default="{}", metavar="JSON", help='what to change, for example \'{"cards_at_once": 2}\'')
        parser.add_argument("--reason", default="", help="make the change, with this reason for the audit")

    def handle(self, *args: Any, **options: Any) -> None:
        lab = queries.lab_facts()
        if not lab.is_set_up:
            raise CommandError("This lab is not set up yet. Set it up first; its policy can be given there.")
        try:
            changes = json.loads(options["set"])
            if not isinstance(changes, dict):
                raise BadPolicy("--set takes a JSON object")
            policy = rulebook.policy_from(options["preset"], changes, lab)
        except ValueError as problem:
            raise CommandError(f"The policy was not changed: {problem}.") from None
        if policy == lab.policy:
            self.stdout.write(json.dumps(lab.policy.to_json(), indent=1, ensure_ascii=False))
            return
        self._tell(policy)
        if not options["reason"]:
            self.stdout.write('Nothing was changed. Give --reason "…" to put it in force.')
            return
        try:
            rulebook.change(policy, by=None, reason=options["reason"], now=timezone.now(), origin="command")
        except Refused as refused:
            with translation.override("en"):
                raise CommandError(" ".join(labels.sentence(one) for one in refused.refusals)) from None
        self.stdout.write("The policy is in force from now on. What is booked keeps its times and price.")

    def _tell(self, policy: Any) -> None:
        effects = rulebook.dry_run(policy, now=timezone.now())
        refused = Counter(code for one in effects for code in set(one.after) - set(one.before))
        allowed = Counter(code for one in effects for code in set(one.before) - set(one.after))
        self.stdout.write(f"Of next week's reservations {len(effects)} would be answered differently if asked under this policy.")
        for words, counts in (("refused for", refused), ("no longer refused for", allowed)):
            for code, count in sorted(counts.items()):
                self.stdout.write(f"  {count} {words} {code} (rule {Refusal(code).rule})")
