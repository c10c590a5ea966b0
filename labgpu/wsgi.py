"""The site as a WSGI application (gunicorn runs this)."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "labgpu.settings")
application = get_wsgi_application()
