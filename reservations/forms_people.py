"""Forms for joining, set-up, members and hosts: they check what was typed; what is allowed, the services decide."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import Any
from zoneinfo import available_timezones

from django import forms
from django.conf import settings
from django.contrib.auth.password_validation import password_validators_help_text_html, validate_password
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.utils.translation import get_language_info
from django.utils.translation import gettext_lazy as _

from . import labels
from .models import Gpu, Host, HostAccount, Member
from .rules.policy import Policy

_GIB = 2**30
# Line breaks, controls, and the marks that turn the direction of the text around them.
PLAIN_TEXT = RegexValidator(
    "[\x00-\x1f\x7f\u2028\u2029\u202a-\u202e\u2066-\u2069]", _("Leave out line breaks and control characters."),
    inverse_match=True,
)


def date_field(label: Any, **kwargs: Any) -> forms.DateField:
    """A day as browsers send it, in a century in which a lab may have one."""
    return forms.DateField(
        label=label, widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"), input_formats=["%Y-%m-%d"],
        validators=[MinValueValidator(date(2000, 1, 1)), MaxValueValidator(date(2099, 12, 31))], **kwargs,
    )


def _name_field(label: Any, autocomplete: str, **kwargs: Any) -> forms.CharField:
    widget = forms.TextInput(attrs={"autocomplete": autocomplete})
    return forms.CharField(label=label, max_length=60, validators=[PLAIN_TEXT], widget=widget, **kwargs)


def _password_field() -> forms.CharField:
    return forms.CharField(
        label=_("Password"), strip=False, max_length=128, help_text=password_validators_help_text_html(),
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )


def _email_field() -> forms.EmailField:
    return forms.EmailField(label=_("E-mail"), max_length=254, widget=forms.EmailInput(attrs={"autocomplete": "email"}))


def _language_field() -> forms.ChoiceField:
    # Each by its own name: who cannot read the page finds theirs.
    names = [(code, get_language_info(code)["name_local"]) for code, _name in settings.LANGUAGES]
    return forms.ChoiceField(label=_("Language"), choices=names)


class _NewAccount(forms.Form):
    """What every new account needs; the password is checked against name and address too."""

    def clean_email(self) -> str:
        return str(self.cleaned_data["email"]).lower()

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if password := data.get("password"):
            try:
                validate_password(password, Member(email=data.get("email", ""), name=data.get("name", "")))
            except forms.ValidationError as problem:
                self.add_error("password", problem)
        return data


class JoinForm(_NewAccount):
    """Somebody with an invite."""

    name = _name_field(_("Your name"), "name")
    email = _email_field()
    password = _password_field()
    language = _language_field()


class SetUpForm(_NewAccount):
    """The lab and its first admin."""

    lab_name = forms.CharField(
        label=_("Name of the lab"), max_length=80, validators=[PLAIN_TEXT],
        widget=forms.TextInput(attrs={"autocomplete": "organization"}),
    )
    zone = forms.CharField(
        label=_("Time zone"), max_length=64, initial="Asia/Shanghai",
        help_text=_("All times are shown in it, for example Asia/Shanghai or Europe/Berlin."),
        widget=forms.TextInput(attrs={"list": "zones", "autocomplete": "off", "spellcheck": "false"}),
    )
    language = _language_field()
    name = _name_field(_("Your name"), "name")
    email = _email_field()
    password = _password_field()

    def clean_zone(self) -> str:
        zone = str(self.cleaned_data["zone"])
        if zone not in available_timezones():
            raise forms.ValidationError(_("There is no such time zone. Choose one from the list."))
        return zone


def _roles(policy: Policy) -> list[tuple[str, Any]]:
    return [(code, labels.ROLE.get(code, code)) for code in policy.roles]


class InviteForm(forms.Form):
    """A link that lets people in."""

    role = forms.ChoiceField(label=_("Role"))
    uses = forms.IntegerField(label=_("How many people"), min_value=1, max_value=200, initial=1)
    days = forms.IntegerField(label=_("Valid for, days"), min_value=1, max_value=90, initial=7)

    def __init__(self, *args: Any, policy: Policy, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["role"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = _roles(policy)


class MemberForm(forms.Form):
    """Role and duties of a member."""

    role = forms.ChoiceField(label=_("Role"))
    is_arbiter = forms.BooleanField(label=_("Arbiter"), required=False, help_text=_("Decides cases to which they are no party."))
    is_admin = forms.BooleanField(
        label=_("Admin"), required=False, help_text=_("Invites and approves members, adds hosts and cards.")
    )
    is_active = forms.BooleanField(
        label=_("May sign in"), required=False,
        help_text=_("Without it they are signed out everywhere at once. Their reservations and their record stay."),
    )
    ends_on = date_field(
        _("Last day in the lab"), required=False,
        help_text=_("Reservations end by its midnight; then they leave the lab by themselves. Empty: no end."),
    )

    def __init__(self, *args: Any, policy: Policy, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = _roles(policy)
        now = self.initial.get("role")
        if now and now not in policy.roles:  # the policy has lost it: shown as it is, and refused when kept
            choices.insert(0, (now, now))
        field = self.fields["role"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = choices


class AccountForm(forms.Form):
    """A member's Unix account on a host."""

    host = forms.TypedChoiceField(label=_("Host"), coerce=int)
    unix_name = forms.CharField(
        label=_("Unix name"), max_length=HostAccount._meta.get_field("unix_name").max_length,
        validators=[RegexValidator(r"\A[A-Za-z_][A-Za-z0-9_.\-]*\$?\Z", _("Give the name as `id -un` prints it."))],
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false", "autocapitalize": "none"}),
    )
    uid = forms.IntegerField(
        label=_("uid"), min_value=1, max_value=2**32 - 2,
        help_text=_("The number that `id -u` prints on that host. Root has none: its processes are nobody's."),
    )

    def __init__(self, *args: Any, hosts: Iterable[Host], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["host"]
        assert isinstance(field, forms.TypedChoiceField)
        field.choices = [(host.pk, host.name) for host in hosts]


class HostForm(forms.Form):
    """A host to add."""

    name = forms.CharField(
        label=_("Name"), max_length=63,
        validators=[
            RegexValidator(r"\A[A-Za-z0-9][A-Za-z0-9_\-]*\Z", _("Use letters, digits, - and _ only, for example gpu01."))
        ],
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false", "autocapitalize": "none"}),
    )
    has_reader = forms.BooleanField(
        label=_("Its cards are read"), required=False, initial=True,
        help_text=_("Leave it off only where nothing can run on the host: such cards can be booked, but never watched."),
    )


class CardForm(forms.Form):
    """A card to add by hand."""

    uuid = forms.CharField(
        label=_("UUID"), max_length=80,
        # A card whose UUID was mistyped could never be removed, and the reader would add it a second time.
        validators=[
            RegexValidator(r"\A(GPU|MIG)-[A-Za-z0-9][A-Za-z0-9./:\-]*\Z", _("Give the UUID as `nvidia-smi -L` prints it."))
        ],
        help_text=_("As `nvidia-smi -L` prints it: GPU-…"),
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    model = forms.CharField(label=_("Model"), max_length=60, validators=[PLAIN_TEXT], help_text=_("For example A100 80GB."))
    memory = forms.DecimalField(
        label=_("Memory, GiB"), min_value=0, max_value=100_000, max_digits=9, decimal_places=2, required=False
    )
    index = forms.IntegerField(label=_("Number on the host"), min_value=0, max_value=255, initial=0)
    pool = forms.CharField(
        label=_("Pool"), max_length=60, required=False, validators=[PLAIN_TEXT],
        help_text=_("Left empty: the pool named after the model."),
        widget=forms.TextInput(attrs={"list": "pools", "autocomplete": "off"}),
    )

    def memory_bytes(self) -> int | None:
        memory = self.cleaned_data["memory"]
        return None if memory is None else int(memory * _GIB)


class ServiceForm(forms.Form):
    """Out of service, or back."""

    service = forms.ChoiceField(choices=[(value, value) for value in Gpu.Service.values])
    reason = forms.CharField(required=False, max_length=2000)


class MaintenanceForm(forms.Form):
    """A maintenance of the ticked cards. What it means, the service says."""

    start = forms.CharField(
        label=_("Start"), required=False, max_length=40, help_text=_("Left empty: from now."),
        widget=forms.TextInput(attrs={"type": "datetime-local"}),
    )
    end = forms.CharField(
        label=_("End"), max_length=40, widget=forms.TextInput(attrs={"type": "datetime-local"}),
        error_messages={"required": _("Choose when it ends.")},
    )
    reason = forms.CharField(
        label=_("Reason"), required=False, max_length=200, validators=[PLAIN_TEXT], help_text=_("Everybody affected reads it.")
    )
    urgent = forms.BooleanField(
        label=_("Urgent"), required=False, help_text=_("Ends what is active on the cards. It needs a reason.")
    )


class ReplaceForm(forms.Form):
    """Which card takes the place of another."""

    new = forms.IntegerField(min_value=1, max_value=2**63 - 1)


class DisputeForm(forms.Form):
    """What a member says against a demerit."""

    statement = forms.CharField(
        label=_("Your statement"), max_length=2000, required=False, widget=forms.Textarea(attrs={"rows": 6}),
        help_text=_("What happened, and where it can be seen. The arbiters read it."),
    )


class SideForm(forms.Form):
    """What somebody says in a case about them that nobody opened."""

    statement = forms.CharField(
        label=_("What the arbiters should know"), max_length=2000, required=False, widget=forms.Textarea(attrs={"rows": 4}),
        help_text=_("Once. The arbiters read it with the case."),
    )


class RulingForm(forms.Form):
    """An arbiter's decision. Whether there is a reason, the service asks."""

    outcome = forms.ChoiceField(choices=[("accepted", "accepted"), ("declined", "declined")])
    reason = forms.CharField(
        label=_("Reason"), max_length=2000, required=False, widget=forms.Textarea(attrs={"rows": 4}),
        help_text=_("The parties read it. A ruling is never edited."),
    )
    waives = forms.MultipleChoiceField(
        label=_("Set aside for this request"), required=False,
        choices=[(code.value, words) for code, words in labels.WAIVER.items()],
        widget=forms.CheckboxSelectMultiple,
    )
    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)
