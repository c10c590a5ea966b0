"""What people type on the booking pages, as values for the services. The law itself is not here: services decide."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl, urlencode
from uuid import uuid4
from zoneinfo import ZoneInfo

from django import forms
from django.core.validators import RegexValidator
from django.http import QueryDict
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from . import labels
from .models import Reservation
from .rules.policy import Policy
from .rules.refusal import Alternative, Code, Refusal
from .rules.week import NoSuchLocalTime, round_to_raster, typed_instant
from .services.booking import BookingRequest

MOST_CARDS = 64
_LARGEST_ID = 2**63 - 1
_YEARS = range(2000, 2100)
_WRITTEN = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d", re.ASCII)
_OVERRIDES = ("start", "end", "project", "tier")
# What a way out that changes the one takes the place of.
_CHIPS = {"start": "when", "end": "hours"}
# Values of the chips: a start on the spot, and that the field beside them says it.
NOW, FIELD = "now", "field"
_GIB = 2**30


def new_key() -> str:
    """A key that makes one rendered form take effect at most once."""
    return uuid4().hex


def read_instant(text: str, zone: ZoneInfo) -> datetime:
    """The instant of a typed local time, or of an exact one (with its offset).

    Raises `NoSuchLocalTime`, or ValueError with a sentence for the reader.
    """
    try:
        if not _WRITTEN.match(text):
            raise ValueError
        value = datetime.fromisoformat(text)
        if value.year not in _YEARS:
            raise ValueError
    except ValueError:
        raise ValueError(_("This is not a date and time. Write it like 2025-12-01 22:00.")) from None
    return value.astimezone(UTC) if value.tzinfo else typed_instant(value, zone)


def local_text(instant: datetime) -> str:
    """An instant as a field for dates and times takes it: by the lab's clock."""
    return timezone.localtime(instant).strftime("%Y-%m-%dT%H:%M")


def clock_refusal(problem: NoSuchLocalTime, field: str) -> list[Refusal]:
    """The refusal of a local time that is skipped or comes twice, once with each of the two readings (A3)."""
    code = Code.TIME_TWICE if problem.twice else Code.TIME_SKIPPED
    first, second = problem.readings
    facts = {"first": first, "second": second}
    return [Refusal(code, facts, Alternative({field: reading})) for reading in problem.readings]


class BookingForm(forms.Form):
    """The booking forms. After `is_valid()`, `request` is what is asked for, unless `refusals` says what the clock refuses.

    Cards by name (`card`), or a `count` of any that fit. The start by `when` (`NOW`, a time, or `FIELD`), else by `start`, empty
    for now; the end by `hours` from the start (or `FIELD`), else by `end`.
    """

    when = forms.CharField(required=False, max_length=40)
    start = forms.CharField(label=gettext_lazy("Start"), required=False, max_length=40)
    hours = forms.CharField(required=False, max_length=10)
    end = forms.CharField(label=gettext_lazy("End"), required=False, max_length=40)
    count = forms.IntegerField(
        min_value=1, max_value=MOST_CARDS, required=False,
        error_messages=dict.fromkeys(
            ("invalid", "min_value", "max_value"), gettext_lazy("Give the number of cards as a whole number, for example 2.")
        ),
    )
    model = forms.CharField(required=False, max_length=200)
    several_hosts = forms.BooleanField(required=False)
    tier = forms.CharField(max_length=30)
    purpose = forms.ChoiceField(
        label=gettext_lazy("Purpose"), choices=[(code, labels.PURPOSE[code]) for code in Reservation.Purpose],
        error_messages={"invalid_choice": gettext_lazy("There is no such purpose. Choose from the list.")},
    )
    release_when_done = forms.BooleanField(required=False)
    extend_while_free = forms.BooleanField(required=False)
    note = forms.CharField(label=gettext_lazy("Note"), required=False, max_length=200)
    may_move = forms.ChoiceField(
        required=False, choices=[("", ""), ("yes", ""), ("no", "")],
        error_messages={"invalid_choice": gettext_lazy("There is no such answer. Choose from the list.")},
    )
    project = forms.IntegerField(
        min_value=1, max_value=_LARGEST_ID, required=False,
        error_messages=dict.fromkeys(
            ("invalid", "min_value", "max_value"), gettext_lazy("There is no such project. Choose from the list.")
        ),
    )
    memory = forms.IntegerField(
        min_value=1, max_value=100_000, required=False,
        error_messages=dict.fromkeys(
            ("invalid", "min_value", "max_value"), gettext_lazy("Give the memory as a whole number of GiB, for example 40.")
        ),
    )
    key = forms.CharField(
        max_length=80,
        validators=[
            RegexValidator(r"\A[0-9A-Za-z-]{8,80}\Z", gettext_lazy("This form is damaged. Reload the page and press again."))
        ],
        error_messages={"required": gettext_lazy("This form is damaged. Reload the page and press again.")},
    )

    def __init__(self, data: QueryDict, *, policy: Policy, zone: ZoneInfo, now: datetime) -> None:
        self.sent = with_override(data)
        super().__init__(self.sent)
        self.policy, self.zone, self.now = policy, zone, now
        self.refusals: list[Refusal] = []
        self.instants: dict[str, datetime] = {}

    def clean(self) -> dict[str, object]:
        cleaned: dict[str, object] = super().clean() or {}
        when, hours = (str(cleaned.get(name) or "").strip() for name in ("when", "hours"))
        typed = str(cleaned.get("start") or "").strip()
        if when == FIELD and not typed:
            self.add_error("start", _("Choose when it starts."))
        self._read("start", "" if when == NOW else typed if when in ("", FIELD) else when)
        if hours not in ("", FIELD):
            self._end_after(hours)
        elif end := str(cleaned.get("end") or "").strip():
            self._read("end", end)
        elif "end" not in self.errors:
            self.add_error("end", _("Choose when it ends."))
        return cleaned

    def _read(self, name: str, text: str) -> None:
        if not text:
            return
        try:
            self.instants[name] = read_instant(text, self.zone)
        except NoSuchLocalTime as problem:
            self.refusals += clock_refusal(problem, name)
        except ValueError as problem:
            self.add_error(name, str(problem))

    def _end_after(self, hours: str) -> None:
        end = end_after(self.instants.get("start"), hours, now=self.now, policy=self.policy, zone=self.zone)
        if end is None:
            self.add_error("end", _("There is no such length. Choose one of the buttons."))
        else:
            self.instants["end"] = end

    def card_ids(self) -> tuple[int, ...]:
        """The cards asked for; one that is no number stands as 0, which no card is, so that the law refuses it."""
        return card_ids(self.sent)

    @property
    def request(self) -> BookingRequest:
        cleaned, card_ids = self.cleaned_data, self.card_ids()
        return BookingRequest(
            card_ids=card_ids, count=0 if card_ids else cleaned["count"] or 0,
            model=None if card_ids else cleaned["model"] or None,
            several_hosts=cleaned["several_hosts"] and not card_ids,
            start=self.instants.get("start"), end=self.instants["end"], tier=cleaned["tier"],
            purpose=cleaned["purpose"], note=cleaned["note"].strip(), key=cleaned.get("key", ""),
            may_move={"yes": True, "no": False}.get(cleaned["may_move"]), project_id=cleaned["project"],
            expected_memory=cleaned["memory"] and cleaned["memory"] * _GIB,
            release_when_done=cleaned["release_when_done"], extend_while_free=cleaned["extend_while_free"],
        )


def card_ids(data: QueryDict, name: str = "card") -> tuple[int, ...]:
    """Ids of cards as sent, each once, in order; nonsense stands as 0."""
    return tuple(dict.fromkeys(_card_id(text) for text in data.getlist(name)[: MOST_CARDS + 1]))


def _card_id(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0
    return number if number <= _LARGEST_ID else 0


def with_override(data: QueryDict) -> QueryDict:
    """The form's values, with those of the pressed alternative (`use`) in place of the typed ones."""
    used = data.get("use")
    if not used:
        return data
    changed = data.copy()
    for name, value in parse_qsl(used[:2000], keep_blank_values=True):
        if name in _OVERRIDES:
            changed[name] = value
            if name in _CHIPS:
                changed[_CHIPS[name]] = ""
        elif name == "cards":
            changed.setlist("card", value.split(","))
    return changed


def pack(alternative: Alternative) -> str:
    """An alternative as the value of its button: exact instants, an empty start for now; the ids of cards if they change; an
    empty project for none."""
    values = {name: value for name, value in alternative.values.items() if name in _OVERRIDES}
    written = {name: _packed(value) for name, value in values.items()}
    if card_ids := alternative.values.get("cards"):
        written["cards"] = ",".join(map(str, card_ids))
    return urlencode(written, safe=",")


def _packed(value: datetime | int | str | None) -> str:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else "" if value is None else str(value)


def end_after(start: datetime | None, hours: str, *, now: datetime, policy: Policy, zone: ZoneInfo) -> datetime | None:
    """The end for a length pressed on the form, elapsed hours on the raster; None when it is no such length (A2)."""
    if not (hours.isascii() and hours.isdigit() and len(hours) < 5) or not 0 < int(hours) * 3600 <= policy.longest_s:
        return None
    return end_of(start, timedelta(hours=int(hours)), now=now, policy=policy, zone=zone)


def end_of(start: datetime | None, length: timedelta, *, now: datetime, policy: Policy, zone: ZoneInfo) -> datetime:
    """When so long from the start (None: now) ends, on the step of the raster at or after it (A2)."""
    return round_to_raster((start or now) + length, policy.raster_s, zone, up=True)
