"""The site as a WSGI application (gunicorn runs this)."""

import gc
import os

from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "labgpu.settings")

application = get_wsgi_application()

assert get_resolver().url_patterns  # the views, which would else be loaded by the first request
# What is loaded by now stays for good. Without this the collector looks through all of it again and again, most often in
# the middle of a schedule, which makes thousands of small values (docs/adr/0014).
gc.collect()
gc.freeze()
