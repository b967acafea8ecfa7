"""Django settings. Every value that differs between sites is read by ``benchsite.lib.environ``."""

import secrets
import socket
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured
from django.utils.csp import CSP

from benchsite.lib import environ, logs

BASE_DIR = Path(__file__).resolve().parent.parent
# In a checkout everything stays in it; an installed product writes nothing beside its own code.
CHECKOUT = (BASE_DIR / "manage.py").is_file()
DATA = environ.folder("BENCHSITE_DATA", BASE_DIR / ".benchsite" if CHECKOUT else Path("~/.local/share/benchsite"))
ASSETS = environ.folder("BENCHSITE_ASSETS", DATA / "assets")
DEBUG = environ.flag("BENCHSITE_DEBUG", False)
PRODUCTION = environ.flag("BENCHSITE_PRODUCTION", False)
_SHORTEST_TOKEN = 16


def _secret_key() -> str:
    """The configured key; outside production one is made once and kept in the data folder."""
    configured = environ.text("BENCHSITE_SECRET_KEY", "")
    if configured:
        return configured
    if PRODUCTION:
        raise ImproperlyConfigured("BENCHSITE_SECRET_KEY is not set; a production site needs its own key.")
    try:
        return _kept_key(DATA / "secret-key")
    except OSError as error:
        sentence = f"BENCHSITE_DATA is {DATA}, which cannot be used ({error.strerror}); name a folder of this account."
        raise ImproperlyConfigured(sentence) from error


def _kept_key(path: Path) -> str:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            path.chmod(0o600)
            file.write(secrets.token_urlsafe(48))
    except FileExistsError:
        pass
    return path.read_text(encoding="utf-8")


SECRET_KEY = _secret_key()
ALLOWED_HOSTS = environ.names("BENCHSITE_HOSTS", "localhost,127.0.0.1,[::1]")
CSRF_TRUSTED_ORIGINS = environ.names("BENCHSITE_TRUSTED_ORIGINS")

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "django_filters",
    "django_htmx",
    "django_rq",
    "benchsite",
    "runs",
    "evidence",
]

MIDDLEWARE = [
    "benchsite.requests.RequestIdMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.middleware.csp.ContentSecurityPolicyMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "benchsite.requests.PrivatePagesMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "benchsite.requests.VisibleTextMiddleware",
]

ROOT_URLCONF = "benchsite.urls"
WSGI_APPLICATION = "benchsite.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates" if CHECKOUT else BASE_DIR / "benchsite" / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.csp",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "benchsite.navigation.navigation",
            ]
        },
    }
]

DATABASES = {"default": environ.database("DATABASE_URL", sqlite=DATA / "benchsite.sqlite3")}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# One connection serves all queues: each worker host has a queue of its own, named after the worker.
REDIS_URL = environ.text("REDIS_URL", "")
REDIS_SOCKET = DATA / "redis" / "redis.sock"
RQ_QUEUES = {"default": {"URL": environ.queue("REDIS_URL", socket=REDIS_SOCKET), "DEFAULT_TIMEOUT": 2700}}
RQ_SHOW_ADMIN_LINK = False  # its dashboard can requeue jobs and shows raw exceptions

AUTHENTICATION_BACKENDS = ["benchsite.accounts.backend.Backend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
CSRF_FAILURE_VIEW = "benchsite.error_pages.csrf_failure"
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "overview"
LOGOUT_REDIRECT_URL = "login"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True
FORMAT_MODULE_PATH = "benchsite.formats"

STATIC_URL = "static/"
STATIC_ROOT = DATA / "static"
# In production a file's name holds its hash, so that browsers keep it; that needs collectstatic.
_STATIC = "CompressedManifestStaticFilesStorage" if PRODUCTION else "CompressedStaticFilesStorage"
STORAGES = {
    "default": environ.storage("BENCHSITE_EVIDENCE_STORAGE", "BENCHSITE_EVIDENCE_OPTIONS", folder=DATA / "evidence"),
    "staticfiles": {"BACKEND": f"whitenoise.storage.{_STATIC}"},
}
WHITENOISE_USE_FINDERS = not PRODUCTION

SECURE_CSP = {
    "default-src": [CSP.NONE],
    "script-src": [CSP.SELF, CSP.NONCE],
    "style-src": [CSP.SELF, CSP.NONCE],
    "img-src": [CSP.SELF, "data:"],
    "font-src": [CSP.SELF],
    "connect-src": [CSP.SELF],
    "form-action": [CSP.SELF],
    "base-uri": [CSP.NONE],
    "frame-ancestors": [CSP.NONE],
}
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = PRODUCTION
SECURE_SSL_REDIRECT = PRODUCTION
SECURE_HSTS_SECONDS = 31_536_000 if PRODUCTION else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = PRODUCTION
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^metrics$"]  # asked from this very host, without a proxy
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if PRODUCTION else None

# What this host is called as a worker; a spec is bound to the worker that was previewed.
WORKER_NAME = environ.host_name("BENCHSITE_WORKER", "local")
WORKER_HOST = environ.text("BENCHSITE_HOST", socket.gethostname())
# Who judges a run that ended: the engine asks it by this name, since evidence builds upon the engine.
RUN_JUDGE = "evidence.register.judging.RegisterJudge"
# Days after a run's end; 0 keeps private evidence for ever. Only `manage.py expire` removes anything.
RETENTION_DAYS = environ.integer("BENCHSITE_RETENTION_DAYS", 0, minimum=0, maximum=36_500)
SELF_REVIEW = environ.flag("BENCHSITE_SELF_REVIEW", False)  # may a reviewer approve their own revision?
# Each sandbox gets a user id of its own from here; above those of Debian and systemd, below those given to namespaces.
SANDBOX_UIDS = environ.user_ids("BENCHSITE_SANDBOX_UIDS", "70000-70063")
# Networks that a gateway may connect to, whatever an endpoint's record says; None for any that the record permits.
GATEWAY_ADDRESSES = environ.networks("BENCHSITE_GATEWAY_ADDRESSES", words=("host-gateway",))
DOCKER_TIMEOUT_S = environ.integer("BENCHSITE_DOCKER_TIMEOUT_S", 30, minimum=5, maximum=120)

# How many proxies stand before the site and add to X-Forwarded-For; 0 believes no header.
TRUSTED_PROXIES = environ.integer("BENCHSITE_TRUSTED_PROXIES", 0, minimum=0, maximum=8)

# Requests that a token of the HTTP API may make in a minute; 0 for any number.
API_REQUESTS_PER_MINUTE = environ.integer("BENCHSITE_API_REQUESTS_PER_MINUTE", 6000, minimum=0, maximum=10**6)

METRICS_TOKEN = environ.text("BENCHSITE_METRICS_TOKEN", "").strip()  # for /metrics, beside this host and administrators
if METRICS_TOKEN and len(METRICS_TOKEN) < _SHORTEST_TOKEN:
    raise ImproperlyConfigured(f"BENCHSITE_METRICS_TOKEN is too short; use {_SHORTEST_TOKEN} characters or more.")
DISK_LOW_MIB = environ.integer("BENCHSITE_DISK_LOW_MIB", 2048, minimum=0, maximum=2**40)

LOGGING = logs.logging_config(
    form=environ.choice("BENCHSITE_LOG_FORMAT", "auto", logs.FORMATS),
    level=environ.choice("BENCHSITE_LOG_LEVEL", "INFO", logs.LEVELS),
)
logs.hide(SECRET_KEY, METRICS_TOKEN, str(DATABASES["default"].get("PASSWORD", "")), *logs.secrets_of_url(REDIS_URL))
environ.refuse_misspelt()
