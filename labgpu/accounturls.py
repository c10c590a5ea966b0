"""The addresses of sign-in that LabGPU has use for: not allauth's pages for e-mail addresses, phones and confirmation."""

from collections.abc import Callable
from functools import wraps

from allauth.account import views
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path, re_path
from django.views.decorators.http import require_http_methods

from reservations.views.sessions import sessions


def _refusing(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """allauth shows a form with errors as 200; everywhere in LabGPU that is 422. It takes a PUT for a form, too: 405."""

    @require_http_methods(["GET", "HEAD", "OPTIONS", "POST"])
    @wraps(view)
    def answered(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        response = view(request, *args, **kwargs)
        if request.method == "POST" and response.status_code == 200 and isinstance(response, TemplateResponse):
            response.status_code = 422
        return response

    return answered


urlpatterns = [
    path("login/", _refusing(views.login), name="account_login"),
    path("login/code/", _refusing(views.request_login_code), name="account_request_login_code"),
    path("login/code/confirm/", _refusing(views.confirm_login_code), name="account_confirm_login_code"),
    path("logout/", views.logout, name="account_logout"),
    path("inactive/", views.account_inactive, name="account_inactive"),
    path("signup/", views.signup, name="account_signup"),  # answers that sign-up is closed
    path("password/change/", _refusing(views.password_change), name="account_change_password"),
    path("password/set/", _refusing(views.password_set), name="account_set_password"),
    path("password/reset/", _refusing(views.password_reset), name="account_reset_password"),
    path("password/reset/done/", views.password_reset_done, name="account_reset_password_done"),
    re_path(
        r"^password/reset/key/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>.+)/$", _refusing(views.password_reset_from_key),
        name="account_reset_password_from_key",
    ),
    path("password/reset/key/done/", views.password_reset_from_key_done, name="account_reset_password_from_key_done"),
    path("sessions/", sessions, name="usersessions_list"),
]
