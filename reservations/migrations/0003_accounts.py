# Kinds and prices: windows have rates, walk-ins have free time, a late cancellation keeps a fee (domain D2, E3, F2).

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("reservations", "0002_tell_of_changes")]

    operations = [
        migrations.RemoveIndex("ledgerentry", "ledger_account"),
        migrations.RenameField("ledgerentry", "week", "period"),
        migrations.AddField(
            "ledgerentry",
            "account",
            models.CharField(choices=[("quota", "Quota"), ("free", "Free")], default="quota", max_length=8),
        ),
        migrations.AddIndex(
            "ledgerentry", models.Index(fields=["member", "account", "period"], name="ledger_account")
        ),
    ]
