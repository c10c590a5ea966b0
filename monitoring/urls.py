"""Addresses of the sensor's pages."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
