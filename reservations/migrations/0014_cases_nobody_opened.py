import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('reservations', '0013_sparse_indexes'),
    ]

    operations = [
        migrations.AddField(
            model_name='case',
            name='concerns',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='cases_about', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='case',
            name='evidence',
            field=models.JSONField(null=True),
        ),
        migrations.AddField(
            model_name='case',
            name='fact',
            field=models.CharField(blank=True, default='', max_length=80),
        ),
        migrations.AlterField(
            model_name='case',
            name='kind',
            field=models.CharField(choices=[('dispute', 'Dispute'), ('queue_jump', 'Queue Jump'), ('exception', 'Exception'), ('cleanup', 'Cleanup')], max_length=16),
        ),
        migrations.AlterField(
            model_name='case',
            name='opened_by',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='cases', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AlterField(
            model_name='case',
            name='statement',
            field=models.CharField(blank=True, max_length=2000),
        ),
        migrations.AlterField(
            model_name='notification',
            name='kind',
            field=models.CharField(choices=[('confirm', 'Confirm'), ('ending', 'Ending'), ('extended', 'Extended'), ('done', 'Done'), ('given_back', 'Given Back'), ('no_show', 'No Show'), ('changed', 'Changed'), ('overrun', 'Overrun'), ('demerit', 'Demerit'), ('ruling', 'Ruling'), ('displaced', 'Displaced'), ('placed', 'Placed'), ('brought_back', 'Brought Back'), ('invited', 'Invited'), ('grant', 'Grant'), ('interrupted', 'Interrupted'), ('swapped', 'Swapped'), ('maintenance', 'Maintenance'), ('served', 'Served'), ('offer', 'Offer'), ('offer_over', 'Offer Over'), ('wait_over', 'Wait Over'), ('cleanup', 'Cleanup'), ('case', 'Case')], max_length=20),
        ),
        migrations.AddConstraint(
            model_name='case',
            constraint=models.CheckConstraint(condition=models.Q(('opened_by__isnull', False), models.Q(('fact', ''), _negated=True), _connector='OR'), name='case_has_an_origin'),
        ),
        migrations.AddConstraint(
            model_name='case',
            constraint=models.UniqueConstraint(condition=models.Q(('fact', ''), _negated=True), fields=('fact',), name='one_case_per_fact'),
        ),
    ]
