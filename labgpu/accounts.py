"""Sign-in and joining: allauth's hooks."""

from __future__ import annotations

from allauth.account.adapter import DefaultAccountAdapter
from django import forms


class Adapter(DefaultAccountAdapter):
    """Sign-up is closed except to the bearer of an invite."""


class SignupForm(forms.Form):
    """The name beside allauth's own fields."""
