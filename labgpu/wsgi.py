"""What a WSGI server serves."""

import gc
import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "labgpu.settings")

application = get_wsgi_application()

# What is loaded by now stays for good. Without this the collector looks through all of it again and again, most often in
# the middle of a schedule, which makes thousands of small values (docs/adr/0014).
gc.collect()
gc.freeze()
