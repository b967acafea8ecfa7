"""Django settings of the commands that only read files (`benchsite.lib.commandline.FILES_ONLY`).

They read no variable, know no database, queue or storage, and make no folder: a command that asked for one would fail
at once, wherever it runs.
"""

INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "runs", "evidence"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_I18N = False
USE_TZ = True
