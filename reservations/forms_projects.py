"""Forms for projects, deadline grants, one-off hours, collaborators and house rules: what was typed, as values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from .forms_people import PLAIN_TEXT, date_field
from .models import Member
from .services import houserules
from .services.projects import MOST_HOURS


def _reason_field(help_text: Any) -> forms.CharField:
    return forms.CharField(
        label=_("Reason"), max_length=2000, required=False, widget=forms.Textarea(attrs={"rows": 3}), help_text=help_text
    )


class _Choosing(forms.Form):
    """A form in which a member is chosen by name."""

    def choose_from(self, name: str, members: Iterable[Member], *, empty: Any = None) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.TypedChoiceField)
        first = [] if empty is None else [("", empty)]
        field.choices = [*first, *((one.pk, one.name) for one in members)]


class ProjectForm(_Choosing):
    """A project: name, advisor, allowance."""

    name = forms.CharField(label=_("Name"), max_length=80, validators=[PLAIN_TEXT])
    advisor = forms.TypedChoiceField(
        label=_("Advisor"), coerce=int, help_text=_("Leads the project and decides its deadline grants.")
    )
    weekly_hours = forms.IntegerField(
        label=_("GPU-hours a week"), min_value=0, max_value=MOST_HOURS, required=False,
        help_text=_("Left empty: the number of the lab's rules."),
    )

    def __init__(self, *args: Any, members: Iterable[Member], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.choose_from("advisor", members)


class ProjectChangeForm(ProjectForm):
    """The same of a project that is there; a closed one books nothing more."""

    is_open = forms.BooleanField(label=_("Open"), required=False, help_text=_("A closed project books nothing more."))


class MemberChoice(_Choosing):
    """One member."""

    member = forms.TypedChoiceField(label=_("Member"), coerce=int)

    def __init__(self, *args: Any, members: Iterable[Member], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.choose_from("member", members)


class LeaveForm(_Choosing):
    """Who leads their projects from now on; the service asks for it where they lead any."""

    successor = forms.TypedChoiceField(
        label=_("Who leads their projects from now on"), coerce=int, required=False, empty_value=None
    )

    def __init__(self, *args: Any, members: Iterable[Member], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.choose_from("successor", members, empty=_("nobody, they lead none"))


class HoursForm(forms.Form):
    """Hours given once."""

    hours = forms.IntegerField(label=_("GPU-hours"), min_value=1, max_value=MOST_HOURS)
    last_day = date_field(_("Usable until"), help_text=_("The last day on which they can be used."))
    reason = _reason_field(_("Everybody in the project reads it."))


class GrantForm(forms.Form):
    """A request for a deadline grant."""

    deadline = date_field(_("Date of the deadline"))
    first_day = date_field(_("First day"))
    last_day = date_field(_("Last day"), help_text=_("The deadline itself at the latest."))
    card_hours = forms.IntegerField(
        label=_("Budget, hours × cards"), min_value=1, max_value=MOST_HOURS,
        help_text=_("Two cards for ten hours are 20, whatever the hours cost."),
    )
    reason = _reason_field(_("What is due and why it needs the deadline tier. Everybody in the lab can read it."))


class DecisionForm(forms.Form):
    """A decision with its reason; whether there is one, the service asks."""

    outcome = forms.ChoiceField(choices=[("granted", "granted"), ("declined", "declined")])
    reason = _reason_field(_("Everybody in the lab can read it."))


class RevokeForm(forms.Form):
    """Why a grant ends."""

    reason = _reason_field(_("Everybody in the lab can read it."))


class RulesForm(forms.Form):
    """The lab's own house rules."""

    text = forms.CharField(
        label=_("Text"), max_length=houserules.LONGEST, required=False, widget=forms.Textarea(attrs={"rows": 12}),
        help_text=_("A new text must be accepted anew by everybody before they book. Empty: the lab has none."),
    )
