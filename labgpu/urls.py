"""Every address of the site. Each has its row in the permission table (tests/permissions)."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("", include("reservations.urls")),
    path("", include("monitoring.urls")),
    path("accounts/", include("allauth.account.urls")),
    path("accounts/sessions/", include("allauth.usersessions.urls")),
    path("admin/", admin.site.urls),
]
