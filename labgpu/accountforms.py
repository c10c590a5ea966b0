"""allauth's forms in LabGPU's words: labels that stay, no placeholders in their place."""

from typing import Any

from allauth.account import forms
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

_LABELS = {
    "login": _("E-mail"), "email": _("E-mail"), "password": _("Password"), "code": _("Code"),
    "oldpassword": _("Current password"), "password1": _("New password"), "password2": _("New password again"),
}

# Django says this of a password, but its Chinese is of an older wording: here it is collected, so that ours is found.
TOO_SHORT = ngettext_lazy(
    "This password is too short. It must contain at least %d character.",
    "This password is too short. It must contain at least %d characters.",
)


class _Plain:
    fields: dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, field in self.fields.items():
            field.widget.attrs.pop("placeholder", None)
            field.label = _LABELS.get(name, field.label)


class Login(_Plain, forms.LoginForm):
    pass


class RequestCode(_Plain, forms.RequestLoginCodeForm):
    pass


class ConfirmCode(_Plain, forms.ConfirmLoginCodeForm):
    pass


class Reset(_Plain, forms.ResetPasswordForm):
    pass


class ResetByKey(_Plain, forms.ResetPasswordKeyForm):
    pass


class ChangePassword(_Plain, forms.ChangePasswordForm):
    pass


class NewPassword(_Plain, forms.SetPasswordForm):
    pass
