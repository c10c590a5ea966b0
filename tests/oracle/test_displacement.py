"""D4, E4, G2: the whole answer to a request, cards and displaced, is the one that trying everything finds."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from reservations.rules import displacement
from reservations.rules.booking import Ask, Facts, Holding, PoolFacts, decide
from reservations.rules.booking import Card as ProductCard
from reservations.rules.facts import Claim
from reservations.rules.policy import WITHOUT_LIMIT, Policy, Role
from reservations.rules.windows import Timetable

from .brute import Answer, Lab, Request, choices
from .cases import case
from .test_choice_of_cards import CASES, ZONE, agrees, at, span

# Nothing refuses but D, E4 and G.
POLICY = Policy(
    mode="person", granted_tiers=(), windows=(),
    cards_at_once=WITHOUT_LIMIT, open_future=WITHOUT_LIMIT, roles={"phd": Role(WITHOUT_LIMIT)},
)


def facts(lab: Lab) -> Facts:
    cards = {one.number: ProductCard(one.number, str(one.number), 100, True, 1, one.host, one.bus) for one in lab.cards}
    holdings = [
        Holding(
            card, span(one), one.number, 2, "Li",
            claim=Claim(
                at(one.start), one.rank, at(one.booked_at), span(one).length * len(one.cards), one.displaced_before
            ),
        )
        for one in lab.bookings
        for card in sorted(one.cards)
    ]
    return Facts(
        now=at(lab.now), zone=ZONE, policy=POLICY, member_id=1, member_approved=True, member_role="phd", cards=cards,
        pools={1: PoolFacts(frozenset(cards), Timetable((), ZONE, {}))}, holdings=holdings, own=[], own_future=0, used={},
        used_last=next((one.number for one in lab.cards if one.used_last), None), mates=cards,
    )


def with_one_used_last(lab: Lab) -> Lab:
    """The product knows one card that the member used last; of several in the case the first stays."""
    first = next((one.number for one in lab.cards if one.used_last), None)
    return replace(lab, cards=tuple(replace(one, used_last=one.number == first) for one in lab.cards))


def answered(lab: Lab, request: Request) -> Answer | None:
    ask = Ask(
        (), at(request.start), at(request.end), POLICY.tiers[request.rank[1]], request.count,
        several_hosts=request.several_hosts,
    )
    plan = decide(ask, facts(lab)).plan
    return plan and Answer(frozenset(plan.card_ids), plan.displaced)


def test_d4_e4_the_whole_answer_is_what_trying_everything_finds() -> None:
    differences = []
    seen: Counter[str] = Counter()
    for seed in range(CASES):
        lab, request = case(seed)
        lab = with_one_used_last(lab)
        best = choices(lab, request)
        seen["none" if not best else "free" if not best[0].displaced else f"{min(len(best[0].displaced), 2)} displaced"] += 1
        if not agrees(answer := answered(lab, request), best):
            differences.append((seed, answer, best))
    assert not differences, f"{len(differences)} of {CASES}, the first: {differences[0]}"
    assert min(seen[sort] for sort in ("none", "free", "1 displaced", "2 displaced")) > CASES // 30, seen


@pytest.mark.parametrize("forgotten", ["the closing hour", "the two hours", "that late ones do not displace"])
def test_d4_e4_an_answer_that_forgets_a_limit_is_found_out(monkeypatch: pytest.MonkeyPatch, forgotten: str) -> None:
    """Control: the comparison above would see it."""
    whole = displacement.freezes_at
    policy = POLICY
    if forgotten == "the closing hour":
        monkeypatch.setattr(displacement, "freezes_at", lambda start, *rest: whole(start, *rest) + timedelta(hours=12))
    elif forgotten == "the two hours":
        policy = replace(POLICY, elastic_safe_s=0)
    else:
        policy = replace(POLICY, freezes_at="23:45")
    monkeypatch.setitem(globals(), "POLICY", policy)
    cases = (case(seed) for seed in range(CASES))
    assert any(
        not agrees(answered(with_one_used_last(lab), request), choices(with_one_used_last(lab), request))
        for lab, request in cases
    )
