"""`make screens`: pictures of the demo lab in every state that people meet, from a real browser. Writes docs/screens/*.png.

The README shows some of them; the rest are there to be looked at when a page is changed.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from tests.conftest import CHROMIUM_FLAGS
from tests.lab import ROOT, Lab, environment

FOLDER = ROOT / "docs" / "screens"
PERSON = "lin@lab.example"
_DESK, _PHONE = (1280, 800), (390, 844)


@dataclass(frozen=True)
class Picture:
    """One picture: where, in which language, theme and size, and what is done on the page before it is taken."""

    name: str
    path: str = "/"
    language: str = "zh-CN"
    theme: Any = "light"
    size: tuple[int, int] = _DESK
    act: Callable[[Page], None] | None = None
    media: Any = "screen"


def _say(text: str) -> Callable[[Page], None]:
    def act(page: Page) -> None:
        page.fill("#bar-say", text)
        with page.expect_response("**/book/bar?*"):
            page.press("#bar-say", "Enter")
        page.locator("#preview .outcome, #bar-asks").first.wait_for()

    return act


def _panel(page: Page) -> None:
    page.locator(".block.own").first.click()
    page.locator("#panel h1, #panel h2").first.wait_for()


def _offline(page: Page) -> None:
    page.route("**/schedule/grid*", lambda route: route.abort())
    page.evaluate("htmx.trigger(document.getElementById('schedule'), 'refresh')")
    page.locator("#toasts .toast").first.wait_for()


def _keys(page: Page) -> None:
    page.keyboard.press("?")


def _dragged(page: Page) -> None:
    lanes = page.locator(".lane[data-card]")
    page.evaluate("scrollTo(0, 420)")
    first, second = lanes.nth(2).bounding_box(), lanes.nth(3).bounding_box()
    assert first is not None and second is not None
    page.mouse.move(first["x"] + first["width"] * 0.14, first["y"] + 20)
    page.mouse.down()
    page.mouse.move(second["x"] + second["width"] * 0.3, second["y"] + 20, steps=5)


# The demo lab as it is.
USUAL = (
    Picture("schedule"),
    Picture("schedule-en", language="en-GB"),
    Picture("schedule-dark", theme="dark"),
    Picture("schedule-phone", size=_PHONE),
    Picture("schedule-phone-dark-en", language="en-GB", theme="dark", size=_PHONE),
    Picture("week", "/?view=week"),
    Picture("list-en", "/?view=list", language="en-GB"),
    Picture("bar-allowed", act=_say("1卡 2小时 后天 13:00")),
    Picture("bar-refused-en", language="en-GB", act=_say("2 30h tomorrow 22:00")),
    Picture("bar-asks", act=_say("2 8 明天")),
    Picture("bar-phone", size=_PHONE, act=_say("1卡 2小时 后天 13:00")),
    Picture("dragging", act=_dragged),
    Picture("panel-en", language="en-GB", theme="dark", act=_panel),
    Picture("keys", act=_keys),
    Picture("offline-en", language="en-GB", act=_offline),
    Picture("print", media="print"),
    Picture("book", "/book"),
    Picture("mine", "/mine", size=(1280, 1200)),
)
# Each state of the lab, what makes it of the demo lab, and its pictures.
STATES = (
    (
        # Sixty-four cards on eight hosts, some with names as long as names get.
        "from reservations.models import Gpu, Host, Member, Pool; pool = Pool.objects.first();"
        "Member.objects.filter(name='Emma Larsen').update(name='Wolfeschlegelsteinhausenbergerdorff Maximilian Alexander');"
        "hosts = [Host.objects.create(name=f'gpu-server-with-a-long-name-{n}') for n in range(7)];"
        "Gpu.objects.bulk_create(Gpu(uuid=f'GPU-{h.pk:08x}-0000-4000-8000-{i:012x}', host=h, pool=pool, index=i,"
        " model='NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition') for h in hosts for i in range(8))",
        (Picture("cards-64"), Picture("cards-64-narrowed", "/?only=mine"), Picture("cards-64-phone", size=_PHONE)),
    ),
    (
        "from reservations.models import Gpu; Gpu.objects.exclude(host__name='demo-a', index=1).update(service='out_of_service')",
        (Picture("cards-out-of-service", "/?view=36h"),),
    ),
)


def main() -> int:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("screens: no browser: install chromium and fonts-noto-cjk.", file=sys.stderr)
        return 2
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="labgpu-screens-") as folder:
        lab = Lab(Path(folder) / "demo", "demo")
        try:
            lab.wait_until_up(120)
            wait_until_cards_are_read(lab.address)
            _change(lab, "from reservations.models import Member; Member.objects.update(language='')")
            with sync_playwright() as driver:
                as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
                browser = driver.chromium.launch(executable_path=chromium, args=[*as_root, *CHROMIUM_FLAGS])
                for picture in USUAL:
                    take(browser, lab, picture)
                for change, pictures in STATES:
                    _change(lab, change)
                    for picture in pictures:
                        take(browser, lab, picture)
                browser.close()
        finally:
            lab.clean_up()
    return 0


def _change(lab: Lab, code: str) -> None:
    """Runs a line in the lab's own database."""
    secret = (lab.data_dir / "secret_key").read_text(encoding="ascii").strip()
    subprocess.run(
        [sys.executable, "manage.py", "shell", "--verbosity", "0", "-c", code], cwd=ROOT, check=True,
        env=environment(lab.data_dir, lab.port, {"SECRET_KEY": secret}),
    )


def take(browser: Browser, lab: Lab, picture: Picture) -> None:
    """One picture, by somebody signed in."""
    page = browser.new_page(
        viewport={"width": picture.size[0], "height": picture.size[1]}, color_scheme=picture.theme, locale=picture.language
    )
    password = (lab.data_dir / "demo_password").read_text(encoding="ascii").strip()
    sign_in(page, lab.address, password)
    page.goto(lab.address + picture.path)
    page.wait_for_load_state("networkidle")
    if picture.act is not None:
        picture.act(page)
    page.emulate_media(media=picture.media)
    page.screenshot(path=FOLDER / f"{picture.name}.png")
    print(f"docs/screens/{picture.name}.png")
    page.close()


def wait_until_cards_are_read(address: str) -> None:
    """The pictures show what the cards do, not that nobody has looked yet."""
    end = time.monotonic() + 90
    while time.monotonic() < end:
        with urllib.request.urlopen(f"{address}/health", timeout=10) as answer:
            if json.load(answer)["checks"]["samples"]["state"] == "ok":
                return
        time.sleep(1)
    raise SystemExit("screens: the simulated cards were not read within 90 s.")


def sign_in(page: Page, address: str, password: str) -> None:
    """Signs in as a student of the demo lab."""
    page.goto(f"{address}/accounts/login/")
    page.locator("input[name=login]").fill(PERSON)
    page.locator("input[name=password]").fill(password)
    page.locator("input[name=password]").press("Enter")
    page.wait_for_url(lambda url: "/accounts/login" not in url)


if __name__ == "__main__":
    sys.exit(main())
