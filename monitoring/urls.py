"""Addresses of the sensor's pages."""

from django.urls import URLPattern, path

from .views import walltime

urlpatterns: list[URLPattern] = [
    path("wall_time.csv", walltime.wall_time, name="wall-time"),
]
