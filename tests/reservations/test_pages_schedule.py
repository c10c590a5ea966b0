"""The schedule: what it shows, to whom, in which window, with how few questions to the database."""

import gzip
import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import time_machine
from django.conf import settings
from django.contrib.staticfiles import finders
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from reservations import queries
from reservations.models import CardState, Reservation, SpecialDay
from reservations.queries import Block
from reservations.views import calendar, pieces
from tests.factories import NOW, at, cards, host, lab, member, reservation

pytestmark = pytest.mark.django_db
SHANGHAI = ZoneInfo("Asia/Shanghai")
BERLIN = ZoneInfo("Europe/Berlin")


@pytest.fixture(autouse=True)
def _now():
    with time_machine.travel(NOW, tick=False):
        yield


@pytest.fixture
def reader(client: Client):
    lab()
    reader = member("Wei")
    client.force_login(reader)
    return reader


def text(response) -> str:
    return response.content.decode()


def test_holder_tier_and_period_stand_on_the_block_without_hovering(client, reader):
    reservation(member("Ada"), cards(1), 1, 9)
    page = text(client.get("/"))
    assert '<span class="who" aria-hidden="true">Ada</span><span class="when" aria-hidden="true">15:00–23:00</span>' in page
    assert "Ada, regular, booked, Mon 30 Nov 15:00 – 23:00" in page
    assert 'class="block t-regular"' in page


def test_own_reservations_are_marked_in_words_too(client, reader):
    reservation(reader, cards(1), 1, 9)
    page = text(client.get("/"))
    assert 'class="block t-regular own"' in page
    assert "15:00 – 23:00, yours" in page


def test_a_new_reservation_stands_out_until_the_grid_is_asked_for_again(client, reader):
    made = reservation(reader, cards(1), 1, 9)
    page = client.get(f"/?new={made.pk}")
    assert "block t-regular own new" in text(page)
    assert "new=" not in text(page).split('hx-get="', 1)[1].split('"', 1)[0]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("?view=month", "There is no such view"),
        ("?view=" + "x" * 10_000, "There is no such view"),
        ("?from=yesterday", "A day is written like"),
        ("?from=2026-13-01", "A day is written like"),
        ("?from=20261201", "A day is written like"),
        ("?from=NaN", "A day is written like"),
        ("?from=9999-12-31", "within a year"),
        ("?from=0001-01-01", "within a year"),
        ("?from=%F0%9F%98%80", "A day is written like"),
    ],
)
@pytest.mark.parametrize("path", ["/", "/schedule/grid"])
def test_a_window_that_cannot_be_shown_is_400_with_the_reason(client, reader, path, query, said):
    response = client.get(path + query)
    assert response.status_code == 400
    assert said in text(response)


@pytest.mark.parametrize("new", ["-1", "nan", "9" * 40, "<b>", "😀"])
def test_a_nonsense_mark_marks_nothing(client, reader, new):
    assert client.get("/", {"new": new}).status_code == 200


def test_markup_in_a_name_stays_text(client, reader):
    reservation(member("<script>alert(1)</script>"), cards(1), 1, 9)
    assert "<script>alert" not in text(client.get("/"))


def test_a_card_of_old_sight_is_unknown_and_says_how_old(client, reader):
    (gpu,) = cards(1)
    CardState.objects.create(gpu=gpu, state="free", since=at(-3), sampled_at=at(-2))
    page = text(client.get("/"))
    assert '<span class="state unknown">unknown</span> <span class="soft">2 hours ago</span>' in page


def test_a_card_never_seen_is_unknown_not_free(client, reader):
    cards(1)
    assert '<span class="state unknown">unknown</span> <span class="soft">never read</span>' in text(client.get("/"))


def test_a_fresh_card_shows_its_state_and_until_when_it_is_free(client, reader):
    (gpu,) = cards(1)
    CardState.objects.create(gpu=gpu, state="free", since=at(-3), sampled_at=NOW - timedelta(seconds=29))
    reservation(reader, [gpu], 10, 12)
    page = text(client.get("/"))
    assert '<span class="state free">free</span>' in page
    assert "free until Tue 00:00" in page


def test_a_held_card_is_not_called_free_because_nothing_runs_on_it(client, reader):
    (gpu,) = cards(1)
    CardState.objects.create(gpu=gpu, state="free", since=at(-3), sampled_at=NOW)
    reservation(member("Ada"), [gpu], None, 2)
    for page in (text(client.get(address)) for address in ("/", "/?view=list", "/board", "/book")):
        assert 'class="state held_empty">held empty</span>' in page
        assert "state free" not in page


def test_cards_held_back_to_back_are_held_until_the_last_end(client, reader):
    (gpu,) = cards(1)
    reservation(reader, [gpu], None, 2)
    reservation(member("Ada"), [gpu], 2, 4)
    assert "held until Mon 18:00" in text(client.get("/"))


def test_the_list_names_each_reservation_once_with_all_its_cards(client, reader):
    reservation(member("Ada"), cards(3, host("gpu-a")), 1, 9)
    page = text(client.get("/?view=list"))
    assert page.count('<th scope="row">') == 1
    assert "gpu-a: 0, 1, 2" in page


def test_without_a_view_the_page_carries_grid_and_list_and_css_chooses(client, reader):
    cards(1)
    page = text(client.get("/"))
    assert 'class="schedule plain"' in page and 'class="calendar' in page and 'class="listing"' in page
    chosen = text(client.get("/?view=36h"))
    assert 'class="calendar' in chosen and 'class="listing"' not in chosen


def test_an_empty_lab_says_what_comes_next(client, reader):
    assert "No cards yet" in text(client.get("/"))


def test_the_grid_is_answered_304_while_nothing_changes(client, reader):
    (gpu,) = cards(1)
    first = client.get("/schedule/grid")
    assert first.status_code == 200 and "<html" not in text(first)
    again = client.get("/schedule/grid", headers={"If-None-Match": first["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    reservation(reader, [gpu], 1, 9)
    changed = client.get("/schedule/grid", headers={"If-None-Match": first["ETag"]})
    assert changed.status_code == 200 and "own" in text(changed)


def test_the_grid_does_not_change_with_every_second(client, reader):
    (gpu,) = cards(1)
    CardState.objects.create(gpu=gpu, state="free", since=at(-3), sampled_at=at(-2))
    first = client.get("/schedule/grid")["ETag"]
    with time_machine.travel(NOW + timedelta(seconds=40), tick=False):
        assert client.get("/schedule/grid")["ETag"] == first


@pytest.mark.parametrize("path", ["/", "/?view=week", "/?view=list", "/schedule/grid"])
def test_queries_do_not_grow_with_cards_and_reservations(client, reader, path):
    counts = []
    for _ in range(2):
        for gpu in cards(1 if not counts else 2, host()):
            reservation(member(), [gpu], 1, 9)
            CardState.objects.create(gpu=gpu, state="in_use", since=at(-3), sampled_at=NOW)
        with CaptureQueriesContext(connection) as asked:
            assert client.get(path).status_code == 200
        counts.append(len(asked))
    assert Reservation.objects.count() == 3
    assert counts[0] == counts[1] <= 9


@pytest.mark.parametrize("method", ["post", "put", "delete"])
def test_the_schedule_only_shows(client, reader, method):
    assert getattr(client, method)("/").status_code == 405


# --- who comes in ---------------------------------------------------------------------------------------------------
def test_signed_out_the_page_leads_to_sign_in_and_back(client):
    lab()
    response = client.get("/?view=week")
    assert (response.status_code, response["Location"]) == (302, "/accounts/login/?next=%2F%3Fview%3Dweek")


def test_a_fragment_met_by_an_expired_session_leads_the_whole_page(client):
    lab()
    response = client.get(
        "/schedule/grid", headers={"HX-Request": "true", "HX-Current-URL": "http://testserver/?view=week"}
    )
    assert (response.status_code, response.content) == (204, b"")
    assert response["HX-Redirect"] == "/accounts/login/?next=%2F%3Fview%3Dweek"


def test_a_foreign_page_is_never_what_sign_in_leads_back_to(client):
    lab()
    response = client.get(
        "/schedule/grid", headers={"HX-Request": "true", "HX-Current-URL": "https://evil.example//evil.example/x"}
    )
    assert response["HX-Redirect"] == "/accounts/login/"


def test_who_is_not_approved_waits(client):
    lab()
    client.force_login(member(approval="pending"))
    assert client.get("/")["Location"] == "/waiting"


def test_who_was_deactivated_is_signed_out(client):
    lab()
    gone = member()
    client.force_login(gone)
    gone.is_active = False
    gone.save()
    assert client.get("/")["Location"].startswith("/accounts/login/")


# --- the picture ----------------------------------------------------------------------------------------------------
def test_days_with_a_clock_change_have_their_own_number_of_columns():
    autumn = calendar.window("week", "2026-10-19", now=datetime(2026, 10, 20, tzinfo=UTC), zone=BERLIN)
    spring = calendar.window("week", "2026-03-23", now=datetime(2026, 3, 24, tzinfo=UTC), zone=BERLIN)
    assert (autumn.columns, spring.columns) == (338, 334)
    hours = [(end - start) / timedelta(hours=1) for _, start, end in calendar.days(autumn)]
    assert hours == [24, 24, 24, 24, 24, 24, 25]


def test_36_hours_begin_an_hour_before_now_or_with_the_day_asked_for():
    from_now = calendar.window("", "", now=NOW + timedelta(minutes=20), zone=SHANGHAI)
    assert (from_now.start, from_now.columns) == (at(-1), 144)
    asked = calendar.window("36h", "2026-12-01", now=NOW, zone=SHANGHAI)
    assert asked.start == datetime(2026, 11, 30, 16, tzinfo=UTC)


def test_a_day_of_which_little_is_shown_has_a_heading_with_room():
    for hour, words in ((21, "Mon 30 Nov"), (22, "Mon 30 Nov"), (23, "Mon 30"), (24, "")):
        late = datetime(2026, 11, 30, 16, tzinfo=UTC) - timedelta(hours=24 - hour)
        win = calendar.window("", "", now=late, zone=SHANGHAI)
        picture = calendar.calendar(win, [], [], {}, reader=pieces.Reader(None, late), lab=queries.lab_facts())
        assert [one.words for one in picture.days][:2] == [words, "Tue 1 Dec"]


def _block(start: float, end: float, pk: int = 1) -> Block:
    return Block(pk, 1, at(start).timestamp(), at(end).timestamp(), "booked", "regular", 7, "Ada")


def _pieces(*blocks: Block, view: str = "week"):
    win = calendar.window(view, "2026-11-30", now=NOW, zone=SHANGHAI)
    reader = pieces.Reader(member().pk, NOW)
    return pieces.Drawing(win.start, win.end, win.step, calendar.SMALL[view], SHANGHAI, reader).lane(blocks)


def test_small_blocks_that_touch_are_one_group_that_names_them_all():
    (group,) = _pieces(_block(1, 2, 1), _block(2, 3, 2))
    assert (group.kind, group.number, len(group.parts)) == ("group", "2", 2)
    assert "15:00 – 16:00" in group.words and "16:00 – 17:00" in group.words


def test_small_blocks_that_stand_apart_and_large_ones_stay_single():
    assert [one.kind for one in _pieces(_block(1, 2, 1), _block(6, 7, 2))] == ["block", "block"]
    assert [one.kind for one in _pieces(_block(0, 8, 1), _block(8, 16, 2))] == ["block", "block"]


def test_a_block_beyond_the_edges_is_cut_at_them():
    (piece,) = _pieces(_block(-48, 400))
    assert piece.css == "s0 e336"


def test_a_status_is_shown_by_the_clock_not_by_the_last_sweep():
    now = NOW.timestamp()
    assert pieces.shown_status(_block(-1, 1), now) == "active"
    assert pieces.shown_status(_block(-2, 0)._replace(status="active"), now) == "finished"


def test_every_column_of_every_view_has_its_class():
    css = (settings.BASE_DIR / "static/css/columns.css").read_text()
    for columns in (144, 334, 335, 336, 337, 338):
        assert f".cols-{columns} " in css
    assert all(f".s{n}{{" in css and f".e{n}{{" in css for n in range(339))


def test_the_head_says_when_hours_cost_more_or_are_closed(client, reader):
    lab(windows=[
        {"mode": "open", "rate": 150, "days": "working", "opens": "09:00", "shuts": "18:00"},
        {"mode": "closed", "days": "weekdays", "weekdays": [2], "opens": "02:00", "shuts": "04:00"},
    ])
    cards(1)
    page = client.get("/?view=week&from=2026-11-30").content.decode()
    assert page.count(">×1.5</span>") == 5  # Monday to Friday, not at the weekend
    assert page.count(">closed</span>") == 1 and 'class="cal-window s100 e104 w-closed"' in page
    assert 'class="shade s18 e36 w-open"' in page


def test_a_special_day_changes_the_picture_and_its_version(client, reader):
    lab(windows=[{"mode": "open", "rate": 150, "days": "working", "opens": "09:00", "shuts": "18:00"}])
    cards(1)
    path = "/schedule/grid?view=week&from=2026-11-30"
    before = client.get(path)
    SpecialDay.objects.create(day=date(2026, 12, 2), is_working=False)
    after = client.get(path, headers={"If-None-Match": before.headers["ETag"]})
    assert after.status_code == 200
    assert (before.content.decode().count("×1.5"), after.content.decode().count("×1.5")) == (5, 4)


def test_the_schedule_marks_up_to_where_days_are_firm(client, reader):
    cards(1)
    assert 'class="cal-firm s44 e45"' in client.get("/?view=36h").content.decode()  # from 13:00 to midnight
    with time_machine.travel(NOW + timedelta(hours=6), tick=False):  # 20:00: tomorrow too
        assert 'class="cal-firm s116 e117"' in client.get("/?view=36h").content.decode()


@pytest.mark.parametrize(("query", "shown"), [
    ("host=gpu-a", {"gpu-a:0", "gpu-a:1"}), ("only=free", {"gpu-a:1", "gpu-b:0"}), ("only=mine", {"gpu-a:0"}),
    ("model=NVIDIA+H100", {"gpu-b:0"}), ("only=nonsense", {"gpu-a:0", "gpu-a:1", "gpu-b:0"}), ("host=nowhere", set()),
])
def test_the_schedule_is_narrowed_to_some_cards_and_so_are_its_polls(client, reader, query, shown):
    first = cards(2, host("gpu-a"))
    cards(1, host("gpu-b"), model="NVIDIA H100")
    reservation(reader, first[:1], None, 4)
    for path in (f"/?view=week&{query}", f"/schedule/grid?view=week&{query}"):
        page = client.get(path).content.decode()
        assert set(re.findall(r'data-name="([^"]+)"', page)) == shown
        assert ("No card is like that now." in page) == (not shown)
    assert (f"{query.split('=')[0]}=" in re.search(r'hx-get="/schedule/grid([^"]*)"', page).group(1)) == ("nonsense" not in query)
    assert client.get(f"/?view=list&{query}").status_code == 200


def test_the_first_load_is_small_and_asks_nothing_of_anybody_else(client, reader):
    gpus = cards(8)
    for place, gpu in enumerate(gpus):
        for slot in range(12):
            start = NOW + timedelta(hours=1 + 12 * slot, minutes=15 * place)
            Reservation.objects.create(
                holder=reader, status="booked", tier="regular", rank_tier=1, start=start, end=start + timedelta(hours=4),
                booked_at=NOW,
            ).allocations.create(gpu=gpu, status="booked", start=start, end=start + timedelta(hours=4), weight=100)
    page = text(client.get("/?view=week"))
    asked = set(re.findall(r'(?:src|href)="([^"]+\.(?:css|js|svg|png|woff2?))"', page))
    assert len(asked) > 8 and all(one.startswith("/static/") for one in asked)
    assert not re.search(r'(?:src|href|action)="(?:https?:)?//', page)
    files = [finders.find(re.sub(r"\.[0-9a-f]{12}(?=\.)", "", one.removeprefix("/static/"))) for one in asked]
    sizes = [len(gzip.compress(Path(one).read_bytes())) for one in files]
    assert sum(sizes) + len(gzip.compress(page.encode())) <= 120_000
