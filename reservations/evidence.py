"""The evidence of a demerit or of a case in words. Written once by the sensor, read for ever: whatever is missing is left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils import formats, timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from . import labels

_MIB = 2**20


@dataclass(frozen=True)
class SampleRow:
    """One sample: when, how many processes and which, the card's use and memory; empty where it was not read."""

    at: str
    processes: str
    pids: str
    use: str
    memory: str


@dataclass(frozen=True)
class Evidence:
    """What proves a demerit or stands in a case: sentences first, then facts, processes and samples. `cards` in one line."""

    sentences: list[str] = field(default_factory=list)
    facts: list[tuple[str, str]] = field(default_factory=list)
    processes: list[str] = field(default_factory=list)
    samples: list[SampleRow] = field(default_factory=list)
    simulated: bool = False
    cards: str = ""

    @property
    def is_empty(self) -> bool:
        return not (self.sentences or self.facts or self.processes or self.samples)


def in_words(raw: Any) -> Evidence:
    """The evidence as a page shows it. Never raises, whatever was stored."""
    if not isinstance(raw, Mapping):
        return Evidence()
    samples = [row for one in _list(raw.get("samples")) if (row := _sample(one)) is not None]
    match raw.get("kind"):
        case "no_show":
            sentences = _not_come(raw)
        case "cleanup":
            sentences = _cleaned_up(raw)
        case _:
            sentences = _sentences(raw, len(samples))
    return Evidence(
        sentences=sentences,
        facts=_facts(raw, told=" ".join(sentences)),
        processes=[text for one in _list(raw.get("processes")) if (text := _process(one))],
        samples=samples,
        simulated=raw.get("simulated") is True,
        cards=_cards(raw),
    )


def _sentences(raw: Mapping[str, Any], samples: int) -> list[str]:
    end, grace, seen, counted = (_instant(raw.get(key)) for key in ("end", "grace_until", "first_sight", "counted_at"))
    said = []
    if end and grace:
        said.append(
            _("The reservation ended at %(end)s; the grace period ran until %(grace)s.")
            % {"end": labels.instant(end), "grace": _clock(grace)}
        )
    if seen:
        card = _text(raw.get("card"))
        on = _("After that, processes of the holder were still seen on %(card)s, first at %(at)s.") if card else _(
            "After that, processes of the holder were still seen, first at %(at)s."
        )
        said.append(on % {"card": card, "at": _clock(seen)})
    if samples:
        said.append(ngettext("%(n)d sample shows it.", "%(n)d samples show it.", samples) % {"n": samples})
    if counted and isinstance(raw.get("waiting"), bool):
        said.append(
            (
                _("Somebody was waiting for the card, so it counted at once, at %(at)s.")
                if raw["waiting"]
                else _("Nobody was waiting, so it counted only at %(at)s.")
            )
            % {"at": _clock(counted)}
        )
    return said


def _not_come(raw: Mapping[str, Any]) -> list[str]:
    start, begins, at = (_instant(raw.get(key)) for key in ("start", "counted_from", "last_look"))
    said = []
    if start:
        said.append(_("The reservation started at %(start)s.") % {"start": labels.instant(start)})
    if begins and at and _is_int(raw.get("counted_s")):
        said.append(
            _("From %(begins)s to %(at)s the cards were seen free for %(n)d min in all, and no process of the holder.")
            % {"begins": _clock(begins), "at": _clock(at), "n": raw["counted_s"] // 60}
        )
    if _is_int(raw.get("looks")):
        said.append(ngettext("%(n)d sample shows it.", "%(n)d samples show it.", raw["looks"]) % {"n": raw["looks"]})
    if raw.get("confirmed") is True:
        said.append(_("It had been confirmed, so the longer time was given."))
    return said


def _cleaned_up(raw: Mapping[str, Any]) -> list[str]:
    """What a weekly clean-up found (F3), of a person or of owners in doubt."""
    listed, told, due, last = (_instant(raw.get(key)) for key in ("listed_at", "told_at", "due_at", "last_look"))
    said = []
    if listed:
        if raw.get("doubt") is True:
            first = _("At %(at)s processes ran here on cards that nobody held, and no member can be said to own them.")
        else:
            first = _("At %(at)s processes without a reservation were listed: %(listed)s.")
        said.append(first % {"at": labels.instant(listed), "listed": _listed(raw)})
    if told and due:
        said.append(
            _("They were told at %(told)s, with time until %(due)s.") % {"told": _clock(told), "due": _clock(due)}
        )
    if last:
        said.append(_("At %(at)s processes were still there: %(cards)s.") % {"at": _clock(last), "cards": _cards(raw)})
    if unread := [one for one in _list(raw.get("unread")) if isinstance(one, str)]:
        said.append(_("Of these cards nothing could be said: %(cards)s.") % {"cards": _(", ").join(unread)})
    return said


def _listed(raw: Mapping[str, Any]) -> str:
    return _("; ").join(text for one in _list(raw.get("listed")) if (text := _process(one)))


def _cards(raw: Mapping[str, Any]) -> str:
    return _(", ").join(_text(one) for one in _list(raw.get("cards")))


def _facts(raw: Mapping[str, Any], *, told: str) -> list[tuple[str, str]]:
    """What no sentence has told; an instant is told when its clock time stands in one."""
    found = [
        (_("Card"), _text(raw.get("card"))),
        (_("Cards"), _cards(raw)),
        (_("UUID"), _text(raw.get("gpu"))),
        (_("Samples had of those expected"), _percent(raw.get("coverage"))),
    ]
    for key, name in (
        ("end", _("End")), ("grace_until", _("Grace period until")), ("first_sight", _("First seen after it")),
        ("asked_at", _("Asked at")), ("counted_at", _("Counted at")),
    ):
        at = _instant(raw.get(key))
        if at and labels.instant(at) not in told and _clock(at) not in told:
            found.append((name, labels.instant(at)))
    return [(name, value) for name, value in found if value]


def _process(raw: Any) -> str:
    if not isinstance(raw, Mapping) or not _is_int(raw.get("pid")):
        return ""
    owner = {
        "verified": pgettext("owner of a process", "verified"), "resolved": pgettext("owner of a process", "resolved"),
        "ambiguous": pgettext("owner of a process", "ambiguous"), "unknown": pgettext("owner of a process", "unknown"),
    }.get(_text(raw.get("owner")))
    parts = [_text(raw["card"])] if _text(raw.get("card")) else []
    parts.append(_("process %(pid)d") % {"pid": raw["pid"]})
    if _is_int(raw.get("uid")):
        parts.append(_("uid %(uid)d") % {"uid": raw["uid"]})
    if owner:
        parts.append(_("owner %(owner)s") % {"owner": owner})
    return " · ".join(parts)


def _sample(raw: Any) -> SampleRow | None:
    if not isinstance(raw, Mapping) or (at := _instant(raw.get("at"))) is None:
        return None
    known = isinstance(raw.get("pids"), list)
    numbers = [str(pid) for pid in _list(raw.get("pids")) if _is_int(pid)]
    use, memory = raw.get("utilization"), raw.get("memory")
    return SampleRow(
        at=_clock(at),
        processes=str(len(numbers)) if known else "",
        pids=", ".join(numbers[:12]) + (" …" if len(numbers) > 12 else ""),
        use=f"{use} %" if _is_int(use) else "",
        memory=_mebibytes(memory),
    )


def _mebibytes(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        return ""
    return f"{formats.number_format(value // _MIB, force_grouping=True)} MiB"


def _instant(value: Any) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value)
        return timezone.localtime(found) if found.tzinfo else None
    except (ValueError, OverflowError):
        return None


def _clock(at: datetime) -> str:
    return f"{timezone.localtime(at):%H:%M:%S}"


def _percent(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        return ""
    return f"{value * 100:.0f} %"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
