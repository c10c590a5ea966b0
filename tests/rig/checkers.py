"""Judges that trust nothing of the product: plain SQL on the tables, the clients' histories, and sums of their own.

Each checker returns sentences about what is wrong; an empty list is a pass. What the law says of charges (E1 to E3) is
written here a second time, on purpose.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from tests.rig.history import Event

HOLDING = "('offered', 'booked', 'active')"
UNITS_PER_WEIGHT_SECOND = 100  # 1 GPU-hour of a card of weight 100 at rate 100 = 36,000,000 units
RANK = {"booked": 0, "active": 1, "finished": 2, "released": 3, "cancelled": 3, "displaced": 3, "forfeited": 3}
# Which rows of the ledger an act may write about its own reservation.
CAUSES = {
    "interrupt": {"interrupted", "lost"}, "return_lost": {"lost"}, "charge_overrun": {"overrun"}, "return_overrun": {"overrun"},
    "reserve": {"booked"}, "extend": {"extended"}, "cancel": {"cancelled", "fee"}, "release": {"released"},
    "move": {"moved", "fee"}, "undo_release": {"undone"}, "undo_booking": {"undone"}, "undo_move": {"undone"},
    "displaced": {"displaced"}, "placed": {"displaced", "moved"}, "brought_back": {"undone"}, "in_quota": {"in_quota"},
    "give_back": {"released", "cancelled", "fee"}, "undo_give_back": {"undone"}, "no_show": {"forfeited"},
}
SIGN = {
    "interrupted": -1, "lost": -1,
    "booked": 1, "extended": 1, "fee": 1, "cancelled": -1, "released": -1, "displaced": -1, "rebooked": -1,
    "forfeited": -1,
}
# By how much each act raises the version.
STEPS = {
    "interrupt": 1, "swap": 1,
    "extend": 1, "release": 1, "undo_release": 1, "cancel": 1, "move": 1, "undo_booking": 1, "undo_move": 1, "displaced": 1,
    "placed": 2, "brought_back": 1, "give_back": 1, "undo_give_back": 1, "no_show": 1,
}


def rows(plain: Any, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query; instants as aware datetimes, whichever driver read them."""
    return [tuple(_instant(value) for value in row) for row in plain.execute(sql).fetchall()]


def _instant(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(value, str) and len(value) >= 19 and value[4] == value[7] == "-" and value[10] == " ":
        return datetime.fromisoformat(value).replace(tzinfo=UTC)
    return value


def _day(value: Any) -> date:
    return value if isinstance(value, date) else date.fromisoformat(value)


# --- P1 -------------------------------------------------------------------------------------------------------------


def overlaps(plain: Any) -> list[str]:
    """Two holding rows of one card that share an instant: the table joined with itself."""
    found = rows(
        plain,
        f"""
        SELECT a.id, b.id, a.gpu_id FROM reservations_allocation a JOIN reservations_allocation b
        ON a.gpu_id = b.gpu_id AND a.id < b.id AND a.start < b."end" AND b.start < a."end"
        WHERE a.status IN {HOLDING} AND b.status IN {HOLDING}
        """,
    )
    return [f"allocations {one} and {other} both hold card {card}" for one, other, card in found]


@dataclass(frozen=True)
class _Belief:
    """From one answer until its next question about a reservation, a client was sure to hold these cards for this slot."""

    reservation: int
    card: int
    start: str
    end: str
    since: int
    until: int


_EVER = 1 << 62


def overlaps_told(events: Iterable[Event]) -> list[str]:
    """Two clients told "yours" for one card and instant, at one moment of real time (P1 as clients see it)."""
    by_reservation: dict[int, list[Event]] = defaultdict(list)
    for event in events:
        key = event.asked.get("reservation") or event.answer.get("reservation")
        if key:
            by_reservation[key].append(event)
    beliefs: dict[int, list[_Belief]] = defaultdict(list)
    for reservation, mine in by_reservation.items():
        mine.sort(key=lambda one: one.begun)
        cards = next((one.answer["cards"] for one in mine if one.ok and "cards" in one.answer), [])
        for position, event in enumerate(mine):
            if not event.ok or event.answer.get("status") not in {"booked", "active"}:
                continue
            later = [one.begun for one in mine[position + 1 :] if one.op != "create"]
            end = event.answer["end"]
            for card in cards:
                beliefs[card].append(
                    _Belief(reservation, card, event.answer["start"], end, event.ended or _EVER, min(later, default=_EVER))
                )
    problems = []
    for card, held in beliefs.items():
        held.sort(key=lambda one: one.start)
        for position, one in enumerate(held):
            for other in held[position + 1 :]:
                if other.start >= one.end:
                    break
                at_once = max(one.since, other.since) < min(one.until, other.until)
                if at_once and other.start < other.end and one.reservation != other.reservation:
                    problems.append(f"card {card} was promised to {one.reservation} and to {other.reservation} at once")
    return sorted(set(problems))


# --- P4 -------------------------------------------------------------------------------------------------------------


def monday(instant: datetime, zone: ZoneInfo) -> date:
    """The Monday of the lab's week at an instant."""
    local = instant.astimezone(zone).date()
    return local - timedelta(days=local.weekday())


def seconds_per_week(start: datetime, end: datetime, zone: ZoneInfo) -> dict[date, int]:
    """Whole seconds of `[start, end)`, instants floored to the second, in each of the lab's weeks."""
    found: dict[date, int] = {}
    at = start
    while at < end:
        week = monday(at, zone)
        following = week + timedelta(days=7)
        turn = datetime(following.year, following.month, following.day, tzinfo=zone).astimezone(UTC)
        until = min(turn, end)
        found[week] = found.get(week, 0) + int(until.timestamp() // 1) - int(at.timestamp() // 1)
        at = until
    return found


def ledger(plain: Any, zone: ZoneInfo) -> list[str]:
    """Every account recomputed from what the cards were really held for and from the fees still kept, at the plain rate,
    and every row with its cause in the audit."""
    expected: Counter[tuple[int, int, str, date]] = Counter()
    # A no-show pays for its first two hours, whatever had elapsed (H2); one that the system placed pays nothing.
    no_shows = {
        reservation: start if placed else min(start + timedelta(hours=2), end)
        for reservation, start, end, placed in rows(
            plain, 'SELECT r.id, r.start, r."end", r.placed_at FROM reservations_reservation r '
            "JOIN reservations_auditentry a ON a.subject = 'reservation' AND a.subject_id = r.id AND a.verb = 'no_show'"
        )
    }
    for reservation, holder, beyond, status, start, end, weight in rows(
        plain,
        'SELECT r.id, r.holder_id, r.is_elastic, a.status, a.start, a."end", a.weight FROM reservations_allocation a '
        "JOIN reservations_reservation r ON r.id = a.reservation_id",
    ):
        if status in {"cancelled", "displaced"}:
            continue
        if (kept := no_shows.get(reservation)) is not None and status == "forfeited":
            end = start if kept == start else max(end, kept)
        for week, seconds in seconds_per_week(start, end, zone).items():
            expected[reservation, holder, _account(beyond), week] += seconds * weight * UNITS_PER_WEIGHT_SECOND
    for reservation, holder, weight, fee in rows(
        plain,
        "SELECT r.id, r.holder_id, a.weight, a.fee FROM (SELECT reservation_id, weight, fee FROM reservations_allocation "
        "UNION ALL SELECT reservation_id, weight, fee FROM reservations_formerallocation) a "
        "JOIN reservations_reservation r ON r.id = a.reservation_id",
    ):
        for begin, until, percent, *beyond in json.loads(fee) if isinstance(fee, str) else fee:
            piece = (_EPOCH + timedelta(microseconds=begin), _EPOCH + timedelta(microseconds=until))
            for week, seconds in seconds_per_week(*piece, zone).items():
                kept = seconds * weight * UNITS_PER_WEIGHT_SECOND * percent // 100
                expected[reservation, holder, _account(beyond), week] += kept
    booked: Counter[tuple[int, int, str, date]] = Counter()
    problems = []
    causes: dict[tuple[int, str], list[datetime]] = defaultdict(list)
    for pk, reservation, member, account, week, units, reason, at in rows(
        plain,
        "SELECT id, reservation_id, member_id, account, period, units, reason, at FROM reservations_ledgerentry "
        "WHERE account <> 'free'",
    ):
        booked[reservation, member, account, _day(week)] += units
        causes[reservation, reason].append(at)
        if units * SIGN.get(reason, units) <= 0:
            problems.append(f"ledger row {pk} says {reason} with {units} units")
    for key in sorted({*expected, *booked}, key=str):
        if expected[key] != booked[key]:
            problems.append(
                f"reservation {key[0]}, member {key[1]}, {key[2]}, week {key[3]}: {booked[key]}, not {expected[key]}"
            )
    audited: dict[tuple[int, str], set[datetime]] = defaultdict(set)
    anywhere: set[datetime] = set()
    for verb, subject, at in rows(
        plain, "SELECT verb, subject_id, at FROM reservations_auditentry WHERE subject = 'reservation'"
    ):
        anywhere.add(at)
        for reason in CAUSES.get(verb, ()):
            audited[subject, reason].add(at)
    # A fee goes and comes back with what somebody else books and undoes.
    problems += [
        f"ledger rows of {reservation} ({reason}) have no cause in the audit"
        for (reservation, reason), instants in causes.items()
        if not set(instants) <= (anywhere if reason in {"fee", "rebooked"} else audited[reservation, reason])
    ]
    return problems


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _account(beyond: object) -> str:
    return "elastic" if beyond else "quota"


def overdrawn(plain: Any, allowance_hours: float) -> list[str]:
    """Accounts above the allowance in some week."""
    found = rows(
        plain,
        "SELECT member_id, period, SUM(units) FROM reservations_ledgerentry WHERE account = 'quota' GROUP BY member_id, period",
    )
    limit = allowance_hours * 3600 * 100 * 100
    return [f"member {member}, week {week}: {int(units) / 36e6} h of {allowance_hours}" for member, week, units in found
            if units > limit]


# --- what was answered, and what was written with it ----------------------------------------------------------------


def acknowledged(plain: Any, events: Iterable[Event]) -> list[str]:
    """Each "booked", "extended", "released", "cancelled" that a client was told is in the tables (P2).

    A later question without an answer (a killed client) may have had its effect: then the row may be further on.
    """
    table = {
        row[0]: row[1:]
        for row in rows(plain, 'SELECT id, holder_id, status, start, "end", version FROM reservations_reservation')
    }
    cards: dict[int, set[int]] = defaultdict(set)
    for reservation, card in rows(plain, "SELECT reservation_id, gpu_id FROM reservations_allocation"):
        cards[reservation].add(card)
    problems = []
    last: dict[int, Event] = {}
    told_cards: dict[tuple[int, int], set[int]] = {}
    moved_by_others = {
        pk for (pk,) in rows(
            plain, "SELECT subject_id FROM reservations_auditentry WHERE verb IN ('displaced', 'placed', 'brought_back')"
        )
    }
    open_questions = {one.asked.get("reservation") for one in events if one.ended is None}
    for event in events:
        if event.ok and "reservation" in event.answer:
            known = last.get(event.answer["reservation"])
            if known is None or event.answer["version"] >= known.answer["version"]:
                last[event.answer["reservation"]] = event
            if "cards" in event.answer:
                told_cards[event.answer["reservation"], event.answer["version"]] = set(event.answer["cards"])
    newest = {reservation: told_cards[reservation, version] for reservation, version in sorted(told_cards)}
    problems += [
        f"{reservation}: cards {cards[reservation]} in the table" for reservation, told in newest.items()
        if reservation in table and reservation not in moved_by_others and cards[reservation] != told
    ]
    for reservation, event in last.items():
        if reservation not in table:
            problems.append(f"reservation {reservation} was promised to {event.client} and is not there")
            continue
        _, status, start, end, version = table[reservation]
        if reservation in moved_by_others and version > event.answer["version"]:
            continue  # it has made room since
        told = event.answer
        if reservation in open_questions:
            if version < told["version"]:
                problems.append(f"reservation {reservation} fell back to version {version}")
            continue
        same = (start.isoformat(), end.isoformat(), version) == (told["start"], told["end"], told["version"])
        if not same or RANK[status] < RANK[told["status"]]:
            problems.append(f"reservation {reservation}: {status} {start} {end} v{version}, but told {told}")
    return problems


def unasked(plain: Any, events: Iterable[Event]) -> list[str]:
    """Reservations that nobody was promised: the effect of a refused or busy answer. Open questions may have one each."""
    events = list(events)
    promised = {one.answer["reservation"] for one in events if one.ok and "reservation" in one.answer}
    found = [row[0] for row in rows(plain, "SELECT id FROM reservations_reservation") if row[0] not in promised]
    allowed = sum(one.op == "create" and one.ended is None for one in events)
    return [f"reservations {found} were promised to nobody"] if len(found) > allowed else []


def audit(plain: Any) -> list[str]:
    """Each reservation has one birth in the audit, each change of version one line, each end of its life its own."""
    verbs: dict[int, Counter[str]] = defaultdict(Counter)
    for verb, subject in rows(plain, "SELECT verb, subject_id FROM reservations_auditentry WHERE subject = 'reservation'"):
        verbs[subject][verb] += 1
    problems = []
    for pk, status, version in rows(plain, "SELECT id, status, version FROM reservations_reservation"):
        told = verbs.pop(pk, Counter())
        changes = sum(told[act] * steps for act, steps in STEPS.items())
        if told["reserve"] != 1 or version != 1 + changes:
            problems.append(f"reservation {pk} v{version}: {dict(told)}")
        # A booking that starts at once begins active, and whoever acts before the sweep overtakes it: the sweep's lines
        # are at most as many as the starts and ends there can be.
        if told["active"] > 1 or told["finished"] > 1 + told["extend"] or (status == "finished" and not told["finished"]):
            problems.append(f"reservation {pk} {status}: {dict(told)}")
        if status == "displaced" and not told["displaced"]:
            problems.append(f"reservation {pk} {status}: {dict(told)}")
        # A booking that is undone ends cancelled, or released if it had started; such a release can be taken back like any (H0).
        ends = told["cancel"] + told["release"] + told["undo_booking"] - told["undo_release"]
        cancelled = told["cancel"] + told["undo_booking"]
        released = told["release"] + told["undo_booking"] - told["undo_release"]
        if ends != (status in {"cancelled", "released"}) or (status == "cancelled" and not cancelled) or (
            status == "released" and not released
        ):
            problems.append(f"reservation {pk} {status}: {dict(told)}")
    return problems + [f"audit of reservation {pk}, which is not there: {dict(told)}" for pk, told in verbs.items()]


def reminders(plain: Any, notice: timedelta = timedelta(minutes=10)) -> list[str]:
    """One message before the end for each end that was ever valid, the latest one due before the present end (K1, P5)."""
    written: dict[int, dict[int, datetime]] = defaultdict(dict)
    problems = []
    for reservation, version, due, key in rows(
        plain, "SELECT reservation_id, reservation_version, due_at, key FROM reservations_notification WHERE kind = 'ending'"
    ):
        if version in written[reservation]:
            problems.append(f"reservation {reservation} v{version} has two messages: {key}")
        written[reservation][version] = due
    births: Counter[int] = Counter()
    for (reservation,) in rows(
        plain,
        "SELECT subject_id FROM reservations_auditentry WHERE subject = 'reservation' "
        "AND verb IN ('reserve', 'extend', 'undo_release', 'move', 'undo_move', 'placed', 'brought_back', 'give_back', "
        "'undo_give_back')",
    ):
        births[reservation] += 1
    for pk, status, end, version in rows(plain, 'SELECT id, status, "end", version FROM reservations_reservation'):
        messages = written.pop(pk, {})
        if len(messages) != births[pk]:
            problems.append(f"reservation {pk}: {len(messages)} messages for {births[pk]} ends")
        if status in {"offered", "booked", "active"} and not end - notice <= messages.get(version, end) < end:
            problems.append(f"reservation {pk} v{version} ends {end} and is reminded {messages.get(version)}")
    return problems + [f"messages about reservation {pk}, which is not there" for pk in written]


def displacements(plain: Any) -> list[str]:
    """Who made room holds nothing or elsewhere, no oftener than the law allows, and was told; what was, holds nothing."""
    problems = [
        f"reservation {pk} made room {times} times" for pk, times in rows(
            plain,
            "SELECT id, displaced_times FROM reservations_reservation r WHERE displaced_times > 2 AND NOT is_elastic AND NOT "
            "EXISTS (SELECT 1 FROM reservations_auditentry WHERE verb = 'in_quota' AND subject_id = r.id)",
        )
    ]
    problems += [
        f"reservation {pk} is {status} and holds card {card}" for pk, status, card in rows(
            plain,
            "SELECT r.id, r.status, a.gpu_id FROM reservations_reservation r "
            "JOIN reservations_allocation a ON a.reservation_id = r.id "
            f"WHERE a.status IN {HOLDING} AND r.status NOT IN {HOLDING}",
        )
    ]
    problems += [
        f"reservation {pk} was version {old} after it is version {new}" for pk, old, new in rows(
            plain,
            "SELECT r.id, f.version, r.version FROM reservations_reservation r "
            "JOIN reservations_formerallocation f ON f.reservation_id = r.id WHERE f.version >= r.version",
        )
    ]
    for kind in ("displaced", "placed"):
        acts = Counter(pk for (pk,) in rows(plain, f"SELECT subject_id FROM reservations_auditentry WHERE verb = '{kind}'"))
        told = Counter(
            pk for (pk,) in rows(plain, f"SELECT reservation_id FROM reservations_notification WHERE kind = '{kind}'")
        )
        problems += [f"reservation {pk} was {kind} and not told so" for pk in acts if acts[pk] != told[pk]]
    return problems


def demerits(plain: Any) -> list[str]:
    """One demerit per fact, each with evidence, one line in the audit and one message (P6)."""
    problems = []
    facts = Counter(fact for (fact,) in rows(plain, "SELECT fact FROM reservations_demerit"))
    problems += [f"{count} demerits for {fact}" for fact, count in facts.items() if count > 1]
    audits = Counter(
        pk for (pk,) in rows(plain, "SELECT subject_id FROM reservations_auditentry WHERE verb = 'demerit'")
    )
    messages = Counter(
        pk for (pk,) in rows(plain, "SELECT demerit_id FROM reservations_notification WHERE kind = 'demerit'")
    )
    for pk, evidence in rows(plain, "SELECT id, evidence FROM reservations_demerit"):
        proof = json.loads(evidence) if isinstance(evidence, str) else evidence
        if not proof or audits.pop(pk, 0) != 1 or messages.pop(pk, 0) != 1:
            problems.append(f"demerit {pk} lacks its evidence, its audit line or its message")
    return problems + [f"traces of demerit {pk}, which is not there" for pk in {*audits, *messages}]


def all_of(
    plain: Any, zone: ZoneInfo, events: Iterable[Event] | None = None, notice: timedelta = timedelta(minutes=10)
) -> list[str]:
    """Everything that must hold after any history whatever."""
    problems = [
        *overlaps(plain), *ledger(plain, zone), *audit(plain), *reminders(plain, notice), *displacements(plain),
        *demerits(plain),
    ]
    if events is not None:
        events = list(events)
        problems += [*overlaps_told(events), *acknowledged(plain, events), *unasked(plain, events)]
    return problems
