"""Every address of the site. Each has its row in the permission table (tests/permissions)."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("", include("reservations.urls")),
    path("", include("monitoring.urls")),
    path("accounts/", include("labgpu.accounturls")),
    path("admin/", admin.site.urls),
]

handler400 = "reservations.views.errors.bad_request"
handler403 = "reservations.views.errors.permission_denied"
handler404 = "reservations.views.errors.page_not_found"
handler429 = "reservations.views.errors.too_many_requests"  # asked for by allauth
handler500 = "reservations.views.errors.server_error"
