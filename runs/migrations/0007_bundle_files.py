"""Bundles say whether their files are packaged or stored, instead of naming a folder of one host.

No file is read. An imported bundle has to be imported again, which fills the storage and changes nothing else.
"""

from django.db import migrations, models
from django.db.models import Value
from django.db.models.functions import Replace

_GUARD = "guard_bundle_content"


def packaged_names(apps, schema_editor):
    packaged = apps.get_model("runs", "TaskBundle").objects.filter(location__startswith="packaged:")
    packaged.update(packaged=Replace("location", Value("packaged:"), Value("")))


def drop_guard(apps, schema_editor):
    """It names the column that goes; after each migrate all guards are made again."""
    table = " ON runs_taskbundle" if schema_editor.connection.vendor == "postgresql" else ""
    schema_editor.execute(f"DROP TRIGGER IF EXISTS {_GUARD}{table}")


class Migration(migrations.Migration):
    dependencies = [("runs", "0006_worker_removal_audited")]

    operations = [
        migrations.AddField(
            model_name="taskbundle",
            name="packaged",
            field=models.CharField(
                blank=True, default="", help_text="Its folder in the package; empty when imported", max_length=64
            ),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="taskbundle",
            name="stored_at",
            field=models.DateTimeField(blank=True, help_text="When the storage held all its files", null=True),
        ),
        migrations.RunPython(packaged_names, migrations.RunPython.noop),
        migrations.RunPython(drop_guard, drop_guard),
        migrations.RemoveField(model_name="taskbundle", name="location"),
    ]
