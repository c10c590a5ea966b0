"""Every code has words."""

import pytest

from reservations import labels
from reservations.models import CardState, Case, Demerit, Reservation, Ruling
from reservations.rules.kinds import Kind
from reservations.rules.lifecycle import Status
from reservations.rules.policy import Policy


@pytest.mark.parametrize(
    ("words", "codes"),
    [
        (labels.STATUS, list(Status)),
        (labels.TIER, Policy().tiers),
        (labels.TIER_LETTER, Policy().tiers),
        (labels.ROLE, list(Policy().roles)),
        (labels.KIND, list(Kind)),
        (labels.PURPOSE, Reservation.Purpose.values),
        (labels.CARD_STATE, CardState.State.values),
        (labels.DEMERIT_REASON, Demerit.Reason.values),
        (labels.DEMERIT_STATE, Demerit.State.values),
        (labels.CASE_KIND, Case.Kind.values),
        (labels.CASE_STATE, Case.State.values),
        (labels.OUTCOME, Ruling.Outcome.values),
    ],
)
def test_every_code_has_words(words: dict[str, str], codes: list[str]) -> None:
    assert {str(code) for code in words} == {str(code) for code in codes}


def test_every_refusal_has_a_sentence() -> None:
    assert labels.missing_sentences() == set()
