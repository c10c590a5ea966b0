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


def clock_refusal(problem: NoSuchLocalTime, field: str) -> list[Refusal]:
    """The refusal of a local time that is skipped or comes twice, once with each of the two readings (A3)."""
    code = Code.TIME_TWICE if problem.twice else Code.TIME_SKIPPED
    first, second = problem.readings
    facts = {"first": first, "second": second}
    return [Refusal(code, facts, Alternative({field: reading})) for reading in problem.readings]


class BookingForm(forms.Form):
    """The booking form. After `is_valid()`, `request` is what is asked for, unless `refusals` says what the clock refuses."""

    start = forms.CharField(label=gettext_lazy("Start"), required=False, max_length=40)
    end = forms.CharField(
        label=gettext_lazy("End"), max_length=40, error_messages={"required": gettext_lazy("Choose when it ends.")}
    )
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

    def __init__(self, data: QueryDict, *, zone: ZoneInfo) -> None:
        self.sent = with_override(data)
        super().__init__(self.sent)
        self.zone = zone
        self.refusals: list[Refusal] = []
        self.instants: dict[str, datetime] = {}

    def clean(self) -> dict[str, object]:
        cleaned: dict[str, object] = super().clean() or {}
        for name in ("start", "end"):
            text = str(cleaned.get(name) or "").strip()
            if not text:
                continue
            try:
                self.instants[name] = read_instant(text, self.zone)
            except NoSuchLocalTime as problem:
                self.refusals += clock_refusal(problem, name)
            except ValueError as problem:
                self.add_error(name, str(problem))
        return cleaned

    def card_ids(self) -> tuple[int, ...]:
        """The cards asked for; one that is no number stands as 0, which no card is, so that the law refuses it."""
        return card_ids(self.sent)

    @property
    def request(self) -> BookingRequest:
        cleaned = self.cleaned_data
        return BookingRequest(
            card_ids=self.card_ids(), start=self.instants.get("start"), end=self.instants["end"], tier=cleaned["tier"],
            purpose=cleaned["purpose"], note=cleaned["note"].strip(), key=cleaned["key"],
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
