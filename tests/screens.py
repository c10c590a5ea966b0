"""`make screens`: the README's pictures, taken from the demo lab in a real browser. Writes docs/screens/*.png."""

import json
import os
import shutil
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.conftest import CHROMIUM_FLAGS
from tests.lab import ROOT, Lab

FOLDER = ROOT / "docs" / "screens"
PERSON = "lin@lab.example"
# name, path, width, height, colour scheme
PICTURES = (
    ("schedule", "/", 1280, 800, "light"),
    ("schedule-dark", "/", 1280, 800, "dark"),
    ("schedule-phone", "/", 390, 844, "light"),
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
            password = (lab.data_dir / "demo_password").read_text(encoding="ascii").strip()
            with sync_playwright() as driver:
                as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
                browser = driver.chromium.launch(executable_path=chromium, args=[*as_root, *CHROMIUM_FLAGS])
                for name, path, width, height, scheme in PICTURES:
                    page = browser.new_page(
                        viewport={"width": width, "height": height}, color_scheme=scheme, locale="zh-CN"  # type: ignore[arg-type]
                    )
                    sign_in(page, lab.address, password)
                    page.goto(lab.address + path)
                    page.wait_for_load_state("networkidle")
                    page.screenshot(path=FOLDER / f"{name}.png")
                    print(f"docs/screens/{name}.png")
                    page.close()
                browser.close()
        finally:
            lab.clean_up()
    return 0


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
    page.goto(f"{address}/accounts/login/")
    page.locator("input[name=login]").fill(PERSON)
    page.locator("input[name=password]").fill(password)
    page.locator("input[name=password]").press("Enter")
    page.wait_for_url(lambda url: "/accounts/login" not in url)


if __name__ == "__main__":
    sys.exit(main())
