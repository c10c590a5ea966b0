import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('reservations', '0014_cases_nobody_opened'),
    ]

    operations = [
        migrations.CreateModel(
            name='Cleanup',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('week', models.DateField(unique=True)),
                ('at', models.DateTimeField()),
                ('until', models.DateTimeField()),
                ('grace_s', models.PositiveIntegerField()),
                ('unlisted', models.JSONField(default=dict)),
                ('doubtful', models.JSONField(default=list)),
                ('doubt_settled_at', models.DateTimeField(blank=True, null=True)),
                ('settled_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'ordering': ['week'],
            },
        ),
        migrations.CreateModel(
            name='CleanupNotice',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('listed_at', models.DateTimeField()),
                ('found', models.JSONField()),
                ('outcome', models.CharField(blank=True, choices=[('', 'open'), ('case', 'Case'), ('gone', 'Gone'), ('untold', 'Untold'), ('unknown', 'Unknown'), ('off', 'Off')], default='', max_length=10)),
            ],
            options={
                'ordering': ['pk'],
            },
        ),
        migrations.AddIndex(
            model_name='cleanup',
            index=models.Index(condition=models.Q(('settled_at', None)), fields=['week'], name='cleanup_open'),
        ),
        migrations.AddField(
            model_name='cleanupnotice',
            name='case',
            field=models.OneToOneField(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='cleanup_notice', to='reservations.case'),
        ),
        migrations.AddField(
            model_name='cleanupnotice',
            name='cleanup',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='notices', to='reservations.cleanup'),
        ),
        migrations.AddField(
            model_name='cleanupnotice',
            name='member',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='cleanup_notices', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddConstraint(
            model_name='cleanupnotice',
            constraint=models.UniqueConstraint(fields=('cleanup', 'member'), name='one_cleanup_notice_per_week'),
        ),
    ]
