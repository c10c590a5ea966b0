"""P8: looking changes nothing, whoever or whatever looks. (Plain looks are cells of the table; these are the others.)"""

from __future__ import annotations

import pytest

from . import world
from .checker import Check
from .table import COLUMNS, TABLE

pytestmark = [pytest.mark.django_db, pytest.mark.once]
SCANNERS = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36",
    "Mozilla/5.0 (compatible; Microsoft Defender SafeLinks)", "Microsoft Office/16.0 (Microsoft Outlook 16.0; Pro)",
    "Mimecast/URL-Protect", "Proofpoint URL Defense", "Barracuda Sentinel (EE)", "Mozilla/5.0 (compatible; GoogleImageProxy)",
    "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)", "Mozilla/5.0 (compatible; Feishu/7.0; LarkUrl2Meta)",
    "facebookexternalhit/1.1", "Mozilla/5.0 (compatible; bingbot/2.0)", "curl/8.5.0",
)
AHEAD = {
    "HX-Request": "true", "HX-Current-URL": "http://testserver/", "HX-Target": "grid", "Sec-Purpose": "prefetch;prerender",
    "Purpose": "prefetch",
}


def test_fragments_and_pages_fetched_ahead_change_nothing_and_show_nothing_of_others() -> None:
    check = Check(world.lab())
    wrong = check.looks([row for row in TABLE if not row.group.startswith("admin")], COLUMNS[:-1], **AHEAD)
    assert not wrong, "\n".join(["", *wrong])
    assert {"note of other", "statement of other", "note of member"} <= check.shown  # there was something to leak


def test_scanners_and_previews_change_nothing() -> None:
    check = Check(world.lab())
    keys = ("link", "join", "account_reset_password_from_key", "release", "account_logout")
    for agent in SCANNERS:
        check.looks(TABLE, ("anonymous", "member"), keys, **{"User-Agent": agent})
    assert not check.wrong, "\n".join(["", *check.wrong])
