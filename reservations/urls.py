"""Addresses of the ledger's pages."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
