"""Settings: every value that an installation may change comes from the environment and has its row in docs/operations.md.

The rules of the lab are not here: they are the policy (`reservations.rules.policy`), kept in the database.
"""

import os
from pathlib import Path
from urllib.parse import urlsplit

import environ
from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext_lazy as _

BASE_DIR = Path(__file__).resolve().parent.parent
env = environ.Env()

# --- where things are kept ------------------------------------------------------------------------------------------
DATA_DIR = Path(env("DATA_DIR", default=str(BASE_DIR / "var" / "lab"))).absolute()


def _secret_key() -> str:
    """The installation's secret: from the environment, else from its data folder (the runner writes it there once)."""
    if key := env("SECRET_KEY", default=""):
        return key
    kept = DATA_DIR / "secret_key"
    if kept.exists():
        return kept.read_text(encoding="ascii").strip()
    raise ImproperlyConfigured(
        f"No secret key. Start LabGPU with `make run`, which makes one in {DATA_DIR}, or set SECRET_KEY."
    )


SECRET_KEY = _secret_key()
DEBUG = env.bool("DEBUG", default=False)

# --- addresses ------------------------------------------------------------------------------------------------------
SITE_URL = env("SITE_URL", default="http://127.0.0.1:8000").rstrip("/")
_site = urlsplit(SITE_URL)
if _site.scheme not in {"http", "https"} or not _site.hostname:
    raise ImproperlyConfigured(
        f"SITE_URL is {SITE_URL!r}. Give the whole address people type, for example https://gpu.example.edu"
    )
_https = _site.scheme == "https"
CSRF_FAILURE_VIEW = "reservations.views.errors.csrf_failure"
ALLOWED_HOSTS = [*dict.fromkeys([_site.hostname, *env.list("ALLOWED_HOSTS", default=[]), "127.0.0.1", "localhost", "[::1]"])]
CSRF_TRUSTED_ORIGINS = [SITE_URL]
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _https
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if env.bool("BEHIND_PROXY", default=False) else None
# How many proxies stand before this server: whom sign-in limits count as the client depends on it.
ALLAUTH_TRUSTED_PROXY_COUNT = env.int("PROXY_COUNT", default=1 if env.bool("BEHIND_PROXY", default=False) else 0)
SECURE_HSTS_SECONDS = 31_536_000 if _https else 0
SECURE_REFERRER_POLICY = "same-origin"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_AGE = 14 * 24 * 3600
X_FRAME_OPTIONS = "DENY"
# Forms here are small; a body over this is answered 400 before it is read.
DATA_UPLOAD_MAX_MEMORY_SIZE = 1_000_000
DATA_UPLOAD_MAX_NUMBER_FIELDS = 300

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.humanize",  # allauth.usersessions' templates need it
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "django_htmx",
    "template_partials",
    "csp",
    "allauth",
    "allauth.account",
    "allauth.usersessions",
    "reservations",
    "monitoring",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "labgpu.csp.PolicyHeader",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "allauth.usersessions.middleware.UserSessionsMiddleware",
    "reservations.middleware.LabMiddleware",
]

ROOT_URLCONF = "labgpu.urls"
WSGI_APPLICATION = "labgpu.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "reservations.context.lab",
            ],
            "builtins": ["template_partials.templatetags.partials", "django.templatetags.i18n", "django.templatetags.static"],
        },
    }
]

# --- database -------------------------------------------------------------------------------------------------------
# IMMEDIATE: a transaction that will write takes the write lock when it begins, so that what it read still holds when
# it writes. FULL: an acknowledged reservation survives a power cut. No ATOMIC_REQUESTS: each GET would take the lock.
SQLITE_OPTIONS = {
    "transaction_mode": "IMMEDIATE",
    "timeout": 3,
    "init_command": "PRAGMA journal_mode=WAL;PRAGMA synchronous=FULL;PRAGMA foreign_keys=ON;PRAGMA cache_size=-20000;",
}
DATABASES = {"default": env.db("DATABASE_URL", default=f"sqlite:///{DATA_DIR / 'labgpu.sqlite3'}")}
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    DATABASES["default"]["OPTIONS"] = SQLITE_OPTIONS
DATABASES["default"].setdefault("CONN_MAX_AGE", env.int("CONN_MAX_AGE", default=600))
DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
# The cache holds sign-in limits only. It lies in the database so that they are shared by all processes and that signing
# in, like booking, needs nothing but web and database (docs/adr/0006).
# MAX_ENTRIES: beyond it entries are culled, whichever they are; with Django's 300 a few hundred made-up addresses would
# wipe the counters of failed sign-ins.
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.db.DatabaseCache",
        "LOCATION": "django_cache",
        "OPTIONS": {"MAX_ENTRIES": 50_000},
    }
}

# --- people ---------------------------------------------------------------------------------------------------------
AUTH_USER_MODEL = "reservations.Member"
AUTHENTICATION_BACKENDS = ["labgpu.accounts.Backend"]
SESSION_ENGINE = "labgpu.sessions"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "schedule"
LOGOUT_REDIRECT_URL = "account_login"
ACCOUNT_ADAPTER = "labgpu.accounts.Adapter"
ACCOUNT_USER_MODEL_USERNAME_FIELD = None
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_FORMS = {
    name: f"labgpu.accountforms.{form}"
    for name, form in {
        "login": "Login", "request_login_code": "RequestCode", "confirm_login_code": "ConfirmCode", "reset_password": "Reset",
        "reset_password_from_key": "ResetByKey", "change_password": "ChangePassword", "set_password": "NewPassword",
    }.items()
}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*"]
ACCOUNT_EMAIL_VERIFICATION = "none"  # an invite link is the proof; domain-limited open sign-up will need more
ACCOUNT_LOGIN_BY_CODE_ENABLED = True
ACCOUNT_LOGIN_BY_CODE_TIMEOUT = 600
ACCOUNT_LOGOUT_ON_GET = False
ACCOUNT_SESSION_REMEMBER = True
ACCOUNT_DEFAULT_HTTP_PROTOCOL = _site.scheme
ACCOUNT_EMAIL_SUBJECT_PREFIX = ""
ACCOUNT_EMAIL_NOTIFICATIONS = True
USERSESSIONS_TRACK_ACTIVITY = False  # one write per page is not worth a "last seen"

# --- mail -----------------------------------------------------------------------------------------------------------
# Without EMAIL_URL mails are kept and shown to admins, so that a lab without SMTP can still sign in by code.
EMAIL_CONFIGURED = bool(env("EMAIL_URL", default=""))
if EMAIL_CONFIGURED:
    _mail = env.email_url("EMAIL_URL")
    globals().update(_mail)
    EMAIL_TIMEOUT = 15
else:
    EMAIL_BACKEND = "labgpu.mail.KeptForAdmins"
DEFAULT_FROM_EMAIL = env("EMAIL_FROM", default=f"LabGPU <labgpu@{_site.hostname}>")
SERVER_EMAIL = DEFAULT_FROM_EMAIL

# --- words and time -------------------------------------------------------------------------------------------------
LANGUAGE_CODE = env("LANGUAGE_CODE", default="zh-hans")
LANGUAGES = [("zh-hans", _("Simplified Chinese")), ("en", _("English"))]
LOCALE_PATHS = [BASE_DIR / "locale"]
USE_I18N = True
USE_TZ = True
TIME_ZONE = "UTC"  # instants are kept and computed in UTC; pages and messages show the lab's zone

# --- static files ---------------------------------------------------------------------------------------------------
STATIC_URL = "/static/"
STATIC_ROOT = DATA_DIR / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "img-src": [SELF, "data:"],
        "object-src": [NONE],
        "base-uri": [NONE],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    }
}

# --- background work ------------------------------------------------------------------------------------------------
BROKER_URL = env("REDIS_URL", default="redis://127.0.0.1:6379/0")
SWEEP_SECONDS = env.float("SWEEP_SECONDS", default=10.0)
SAMPLE_SECONDS = env.float("SAMPLE_SECONDS", default=10.0)
# The name under which this machine's own cards are known; its Celery queue is `gpu.<name>`.
THIS_HOST = env("LABGPU_HOST", default=os.uname().nodename.split(".")[0])
# Simulated hosts (demo, tests): one scenario file per host, <host>.json, in this folder.
SCENARIO_DIR = DATA_DIR / "scenarios"

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "{asctime} {levelname} {name} {message}", "style": "{"}},
    "filters": {"no_tokens": {"()": "labgpu.logs.MaskTokens"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "plain", "filters": ["no_tokens"]}},
    "root": {"handlers": ["console"], "level": env("LOG_LEVEL", default="INFO")},
    "loggers": {
        "django": {"level": "INFO"},
        "django.server": {"handlers": ["console"], "level": "WARNING", "propagate": False},
    },
}
