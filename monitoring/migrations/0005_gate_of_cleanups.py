import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('monitoring', '0004_gate_of_reservations'),
        ('reservations', '0015_weekly_cleanup'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='gateentry',
            name='gate_entry_has_a_subject',
        ),
        migrations.AddField(
            model_name='gateentry',
            name='cleanup_notice',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='gate_entries', to='reservations.cleanupnotice'),
        ),
        migrations.AddConstraint(
            model_name='gateentry',
            constraint=models.CheckConstraint(condition=models.Q(('incident__isnull', False), ('reservation__isnull', False), ('cleanup_notice__isnull', False), _connector='OR'), name='gate_entry_has_a_subject'),
        ),
    ]
