"""Refusals: each has a code, the number of its rule, the facts its sentence needs, and what would be allowed instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any


class Code(StrEnum):
    """Why something was refused. The words are in `reservations.labels`, in both languages."""

    # asking for cards
    NOT_APPROVED = "not_approved"
    ROLE_UNKNOWN = "role_unknown"
    NO_CARDS = "no_cards"
    CARD_UNKNOWN = "card_unknown"
    CARD_OUT_OF_SERVICE = "card_out_of_service"
    TIER_UNKNOWN = "tier_unknown"
    TIER_NEEDS_GRANT = "tier_needs_grant"
    END_BEFORE_START = "end_before_start"
    OFF_RASTER = "off_raster"
    TOO_SHORT = "too_short"
    TOO_LONG = "too_long"
    IN_PAST = "in_past"
    DAY_NOT_OPEN = "day_not_open"
    TIME_SKIPPED = "time_skipped"
    TIME_TWICE = "time_twice"
    CARD_TAKEN = "card_taken"
    EQUAL_FREE = "equal_free"
    NO_DISPLACING = "no_displacing"
    MAINTENANCE = "maintenance"
    CARD_LOST = "card_lost"
    NOT_ENOUGH_CARDS = "not_enough_cards"
    CARD_OFFERED = "card_offered"
    WAITLIST_FIRST = "waitlist_first"
    NOT_RENEWED = "not_renewed"
    RESERVE_KEPT = "reserve_kept"
    WINDOW_CLOSED = "window_closed"
    WINDOW_WALK_IN = "window_walk_in"
    WINDOW_LONG = "window_long"
    WINDOW_HOURS = "window_hours"
    WALK_IN_WINDOW = "walk_in_window"
    WALK_IN_LONG = "walk_in_long"
    WALK_IN_CARDS = "walk_in_cards"
    CARDS_AT_ONCE = "cards_at_once"
    OPEN_FUTURE = "open_future"
    QUOTA = "quota"
    PROJECT_UNKNOWN = "project_unknown"
    PROJECT_CLOSED = "project_closed"
    NOT_IN_PROJECT = "not_in_project"
    PROJECT_NEEDED = "project_needed"
    TIER_NEEDS_PROJECT = "tier_needs_project"
    FREE_HOURS_ONLY = "free_hours_only"
    PROJECT_CARDS = "project_cards"
    GRANT_DAYS = "grant_days"
    GRANT_BUDGET = "grant_budget"
    HOUSE_RULES = "house_rules"
    AFTER_LAST_DAY = "after_last_day"
    COLLABORATOR_CARDS = "collaborator_cards"
    # projects and deadline grants
    PROJECT_KNOWN = "project_known"
    MEMBER_UNKNOWN = "member_unknown"
    DAY_OVER = "day_over"
    GRANT_TOO_LONG = "grant_too_long"
    GRANT_AFTER_DEADLINE = "grant_after_deadline"
    GRANT_DECIDED = "grant_decided"
    GRANT_PARTY = "grant_party"
    GRANT_ADVISOR = "grant_advisor"
    GRANT_ARBITER = "grant_arbiter"
    # collaborators
    COLLABORATORS_FULL = "collaborators_full"
    COLLABORATOR_HOLDER = "collaborator_holder"
    NOT_INVITED = "not_invited"
    # leaving
    SUCCESSOR_NEEDED = "successor_needed"
    KEY_REUSED = "key_reused"
    # changing a reservation
    NOT_YOURS = "not_yours"
    STALE = "stale"
    WRONG_STATUS = "wrong_status"
    NOT_LATER = "not_later"
    STILL_RUNNING = "still_running"
    UNDO_OVER = "undo_over"
    GRACE_OVER = "grace_over"
    OWNER_ACTED = "owner_acted"
    REPLACED = "replaced"
    EXTEND_AHEAD = "extend_ahead"
    CONFIRM_EARLY = "confirm_early"
    # the waitlist
    WAIT_TOO_SHORT = "wait_too_short"
    WAITS_ENOUGH = "waits_enough"
    OFFER_ENDED = "offer_ended"
    WAIT_OVER = "wait_over"
    # links
    LINK_FORGED = "link_forged"
    LINK_EXPIRED = "link_expired"
    LINK_OVERTAKEN = "link_overtaken"
    # conduct and cases
    DISPUTE_OVER = "dispute_over"
    ALREADY_DISPUTED = "already_disputed"
    SIDE_STATED = "side_stated"
    TEXT_MISSING = "text_missing"
    NOT_ARBITER = "not_arbiter"
    PARTY = "party"
    CASE_DECIDED = "case_decided"
    CASE_OVERTAKEN = "case_overtaken"
    NEEDS_NO_RULING = "needs_no_ruling"
    # people and cards of the lab
    INVITE_OVER = "invite_over"
    EMAIL_KNOWN = "email_known"
    LAST_ADMIN = "last_admin"
    UNIX_KNOWN = "unix_known"
    HOST_KNOWN = "host_known"
    CARD_KNOWN = "card_known"
    # maintenance, lost cards and what comes in their place
    MAINTENANCE_WAITS = "maintenance_waits"
    MAINTENANCE_TWICE = "maintenance_twice"
    MAINTENANCE_OVER = "maintenance_over"
    NOTHING_LOST = "nothing_lost"
    NO_EQUAL_CARD = "no_equal_card"
    NOT_A_REPLACEMENT = "not_a_replacement"


RULE: Mapping[Code, str] = MappingProxyType(
    {
        Code.NOT_APPROVED: "B2", Code.ROLE_UNKNOWN: "B1", Code.NO_CARDS: "G2", Code.CARD_UNKNOWN: "G1",
        Code.CARD_OUT_OF_SERVICE: "G5", Code.TIER_UNKNOWN: "C1", Code.TIER_NEEDS_GRANT: "C2",
        Code.END_BEFORE_START: "A1", Code.OFF_RASTER: "A1", Code.TOO_SHORT: "A1", Code.TOO_LONG: "A1",
        Code.IN_PAST: "A4", Code.DAY_NOT_OPEN: "A4", Code.TIME_SKIPPED: "A3", Code.TIME_TWICE: "A3",
        Code.CARD_TAKEN: "C3", Code.EQUAL_FREE: "D4", Code.NO_DISPLACING: "J3",
        Code.NOT_ENOUGH_CARDS: "G2", Code.RESERVE_KEPT: "G4", Code.WINDOW_CLOSED: "F1",
        Code.CARD_OFFERED: "K5", Code.WAITLIST_FIRST: "K5", Code.NOT_RENEWED: "D2", Code.WAIT_TOO_SHORT: "K5",
        Code.WAITS_ENOUGH: "K5", Code.OFFER_ENDED: "K5", Code.WAIT_OVER: "K5",
        Code.CARD_TAKEN: "C3", Code.NOT_ENOUGH_CARDS: "G2", Code.RESERVE_KEPT: "G4", Code.WINDOW_CLOSED: "F1",
        Code.WINDOW_WALK_IN: "F1", Code.WINDOW_LONG: "F1", Code.WINDOW_HOURS: "F2", Code.WALK_IN_WINDOW: "F1",
        Code.WALK_IN_LONG: "D2", Code.WALK_IN_CARDS: "D2", Code.CARDS_AT_ONCE: "B1", Code.OPEN_FUTURE: "B1", Code.QUOTA: "E2",
        Code.PROJECT_UNKNOWN: "B4", Code.PROJECT_CLOSED: "B4", Code.NOT_IN_PROJECT: "B4", Code.PROJECT_NEEDED: "B5",
        Code.TIER_NEEDS_PROJECT: "B5", Code.FREE_HOURS_ONLY: "B5", Code.PROJECT_CARDS: "B6",
        Code.GRANT_DAYS: "C2", Code.GRANT_BUDGET: "C2", Code.HOUSE_RULES: "B2", Code.AFTER_LAST_DAY: "B2",
        Code.COLLABORATOR_CARDS: "B4", Code.PROJECT_KNOWN: "B6", Code.MEMBER_UNKNOWN: "B2", Code.DAY_OVER: "A4",
        Code.GRANT_TOO_LONG: "C2", Code.GRANT_AFTER_DEADLINE: "C2", Code.GRANT_DECIDED: "C2", Code.GRANT_PARTY: "B3",
        Code.GRANT_ADVISOR: "B3", Code.GRANT_ARBITER: "C2", Code.COLLABORATORS_FULL: "B4", Code.COLLABORATOR_HOLDER: "B4",
        Code.NOT_INVITED: "B4", Code.SUCCESSOR_NEEDED: "B2",
        Code.KEY_REUSED: "K4", Code.NOT_YOURS: "H8", Code.STALE: "H8", Code.WRONG_STATUS: "H", Code.NOT_LATER: "H5",
        Code.STILL_RUNNING: "H4", Code.UNDO_OVER: "H0", Code.GRACE_OVER: "H5", Code.OWNER_ACTED: "H0", Code.REPLACED: "D5",
        Code.EXTEND_AHEAD: "H5", Code.CONFIRM_EARLY: "H2", Code.LINK_FORGED: "K4",
        Code.LINK_EXPIRED: "K4", Code.LINK_OVERTAKEN: "K4", Code.DISPUTE_OVER: "J4", Code.ALREADY_DISPUTED: "J4",
        Code.SIDE_STATED: "L2",
        Code.TEXT_MISSING: "L2", Code.NOT_ARBITER: "B3", Code.PARTY: "B3", Code.CASE_DECIDED: "L3",
        Code.CASE_OVERTAKEN: "L3", Code.NEEDS_NO_RULING: "L1",
        Code.INVITE_OVER: "B2", Code.EMAIL_KNOWN: "B2", Code.LAST_ADMIN: "B3", Code.UNIX_KNOWN: "I3",
        Code.MAINTENANCE: "G5", Code.CARD_LOST: "G6", Code.MAINTENANCE_WAITS: "G5", Code.MAINTENANCE_TWICE: "G5",
        Code.MAINTENANCE_OVER: "G5", Code.NOTHING_LOST: "G5", Code.NO_EQUAL_CARD: "G5", Code.NOT_A_REPLACEMENT: "G6",
        Code.HOST_KNOWN: "G1", Code.CARD_KNOWN: "G1",
    }
)


@dataclass(frozen=True)
class Alternative:
    """What would be allowed instead, as the values of the same form (`start`, `end` instants; `project` an id or None,
    with its name as `project_name`; `tier` a code)."""

    values: Mapping[str, Any]


@dataclass(frozen=True)
class Refusal:
    """One reason why not. `facts` fill the sentence of its code."""

    code: Code
    facts: Mapping[str, Any] = field(default_factory=dict)
    alternative: Alternative | None = None

    @property
    def rule(self) -> str:
        """The number of the rule in docs/policy.md."""
        return RULE[self.code]


class Refused(Exception):
    """A request that the law does not allow, with every reason at once. Nothing was written."""

    def __init__(self, refusals: Iterable[Refusal]) -> None:
        self.refusals = tuple(refusals)
        super().__init__(", ".join(refusal.code for refusal in self.refusals))

    @property
    def codes(self) -> list[Code]:
        return [refusal.code for refusal in self.refusals]


def refuse(code: Code, alternative: Alternative | None = None, **facts: Any) -> Refused:
    """A refusal with one reason, ready to raise."""
    return Refused([Refusal(code, facts, alternative)])
