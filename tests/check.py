"""`make check`: everything that is checked without running the product. Each line says ok or what is wrong.

`python -m tests.check NAME…` runs the named checks only.
"""

import ast
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import polib

ROOT = Path(__file__).resolve().parent.parent
LARGEST_FILE = 1_000_000
LOCKS = ("requirements.lock", "requirements-dev.lock")
VENDOR = ROOT / "static" / "vendor"
CHINESE = ROOT / "locale" / "zh_Hans" / "LC_MESSAGES" / "django.po"
HAN = re.compile(r"[\u3400-\u9fff]")
PLACEHOLDER = re.compile(r"%\(\w+\)[a-z]")
ADDRESS = re.compile(rb"https?://[^\s\"'`<>)]+")
# Texts that are the same in both languages, or have no Chinese in them, on purpose.
SAME_IN_CHINESE = {"LabGPU", "GPU", "English", "UUID"}
# Addresses that client files may hold: names of XML vocabularies, which nothing ever fetches.
NAMES_NOT_PLACES = (b"http://www.w3.org/",)
# What the tools need of the environment; no installation of yours is looked at.
ENV = {
    **{name: value for name, value in os.environ.items() if name not in {"DATABASE_URL", "REDIS_URL", "SITE_URL", "EMAIL_URL"}},
    "SECRET_KEY": "only-for-checks",
    "DJANGO_SETTINGS_MODULE": "labgpu.settings",
}

Findings = Iterable[str]


class NotHere(Exception):
    """A check whose tool is not part of the environment and is not here."""


def tool(*command: str, cwd: Path = ROOT) -> list[str]:
    """Runs a tool of the environment; its output is the finding when it fails."""
    done = subprocess.run([sys.executable, "-m", *command], cwd=cwd, env=ENV, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return []
    return [line for line in (done.stdout + done.stderr).splitlines() if line.strip()] or [f"exit code {done.returncode}"]


def style() -> Findings:
    return tool("ruff", "check", "--quiet", "--output-format", "concise", ".")


def types() -> Findings:
    return tool("mypy", "--no-error-summary")


def directions() -> Findings:
    """Who may import whom (contracts in pyproject.toml)."""
    code = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_logo=True))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=ENV, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return []
    said = (done.stdout + done.stderr).splitlines()
    return [line for line in said if line.strip() and not line.rstrip().endswith("KEPT")]


def pure_rules() -> Findings:
    """`rules` import the standard library and rules, nothing else: a new dependency is not pure by being unknown to a list."""
    allowed = {"reservations": ("reservations.rules",), "monitoring": ("monitoring.rules", "reservations.rules")}
    for app, ours in allowed.items():
        for path in sorted((ROOT / app / "rules").glob("**/*.py")):
            for line, module in imported_modules(path):
                if module.split(".")[0] in sys.stdlib_module_names or module.startswith(ours):
                    continue
                yield f"{path.relative_to(ROOT)}:{line}: imports {module}"


def imported_modules(path: Path) -> Iterable[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.lineno, node.module
        elif isinstance(node, ast.ImportFrom) and node.level > 1:
            yield node.lineno, "." * node.level + (node.module or "")  # one dot stays among the rules


def migrations() -> Findings:
    return tool("django", "makemigrations", "--check", "--dry-run")


def system() -> Findings:
    return tool("django", "check", "--fail-level", "WARNING")


def translations() -> Findings:
    """Each text of the interface has its Chinese: written, certain, really Chinese."""
    if not CHINESE.exists():
        return [f"{CHINESE.relative_to(ROOT)} is missing: run `make messages` and translate it"]
    return list(untranslated(polib.pofile(str(CHINESE))))


def untranslated(file: polib.POFile) -> Findings:
    for entry in file:
        if entry.obsolete:
            continue
        texts = list(entry.msgstr_plural.values()) if entry.msgid_plural else [entry.msgstr]
        shown = entry.msgid[:60].replace("\n", " ")
        if "fuzzy" in entry.flags:
            yield f"line {entry.linenum}: fuzzy: {shown}"
        elif not texts or not all(texts):
            yield f"line {entry.linenum}: not translated: {shown}"
        elif entry.msgid not in SAME_IN_CHINESE:
            if has_words(entry.msgid) and not all(HAN.search(text) for text in texts):
                yield f"line {entry.linenum}: no Chinese in the Chinese: {shown}"
            elif entry.msgid in texts:
                yield f"line {entry.linenum}: the same as the source: {shown}"


def has_words(text: str) -> bool:
    """Whether something is left to say in Chinese: between placeholders alone there is only punctuation to translate."""
    return any(char.isalpha() for char in PLACEHOLDER.sub("", text))


def texts_collected() -> Findings:
    """No text of the code or the templates is missing from the .po file."""
    if not shutil.which("xgettext"):
        return ["xgettext is missing: install gettext (on Debian: apt-get install gettext)"]
    if not CHINESE.exists():
        return [f"{CHINESE.relative_to(ROOT)} is missing: run `make messages`"]
    with tempfile.TemporaryDirectory(prefix="labgpu-check-") as folder:
        copy = Path(folder) / "tree"
        for name in source_files():
            if name.split("/")[0] in {"labgpu", "reservations", "monitoring", "templates", "locale"} or name == "manage.py":
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, copy / name)
        (copy / "static").mkdir(exist_ok=True)
        if said := tool("django", "makemessages", "-l", "zh_Hans", "-v", "0", cwd=copy):
            return said
        before = {key(entry) for entry in polib.pofile(str(CHINESE)) if not entry.obsolete}
        collected = polib.pofile(str(copy / CHINESE.relative_to(ROOT)))
        return [
            f"{(entry.occurrences or [('?', '')])[0][0]}: not in the .po file (run `make messages`): {entry.msgid[:60]!r}"
            for entry in collected
            if not entry.obsolete and key(entry) not in before
        ]


def key(entry: polib.POEntry) -> tuple[str, str, str]:
    return entry.msgctxt or "", entry.msgid, entry.msgid_plural or ""


def vendored() -> Findings:
    """Vendored files are the ones that VERSIONS.txt says: `name version licence sha256 file`, one file a line. A licence text
    lies beside its file and needs no line."""
    listing = VENDOR / "VERSIONS.txt"
    if not listing.exists():
        return ["static/vendor/VERSIONS.txt is missing"]
    listed = set()
    for number, line in enumerate(listing.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split()
        if len(fields) != 5 or not re.fullmatch(r"[0-9a-f]{64}", fields[3]):
            yield f"VERSIONS.txt:{number}: give name, version, licence, sha256 and file"
            continue
        wanted, name = fields[3:]
        listed.add(name)
        path = VENDOR / name
        if not path.is_file():
            yield f"{name} is listed but missing"
        elif hashlib.sha256(path.read_bytes()).hexdigest() != wanted:
            yield f"{name} is not the file that was vendored"
    for path in sorted(VENDOR.rglob("*")):
        name = path.relative_to(VENDOR).as_posix()
        if path.is_file() and name not in listed and name != "VERSIONS.txt" and not name.endswith(".LICENSE.txt"):
            yield f"{name} is not listed in VERSIONS.txt"


def addresses() -> Findings:
    """No address in lock and client files: a lock names and hashes, and a page loads nothing from elsewhere."""
    suffixes = (".js", ".css", ".html", ".svg", ".webmanifest")
    for name in source_files():
        client = name.startswith(("static/", "templates/")) and name.endswith(suffixes) and not name.startswith("static/vendor/")
        if name not in LOCKS and not client:
            continue
        for number, line in enumerate((ROOT / name).read_bytes().splitlines(), 1):
            for found in ADDRESS.findall(line):
                if not found.startswith(NAMES_NOT_PLACES):
                    yield f"{name}:{number}: {found.decode(errors='replace')}"


def sizes() -> Findings:
    for name in source_files():
        if (size := (ROOT / name).stat().st_size) > LARGEST_FILE:
            yield f"{name} has {size:,} bytes"


def links() -> Findings:
    """No link is committed: it leads elsewhere on every other machine, and a checkout puts it in place of what lies there."""
    listing = subprocess.run(["git", "ls-files", "-s", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for line in listing.stdout.split("\0"):
        if line.startswith("120000 "):
            yield f"{line.split(maxsplit=3)[3]} is a link: take it out with git rm --cached"


def compose() -> Findings:
    """The compose file reads well; only where the tool is installed."""
    command = compose_command()
    if command is None:
        raise NotHere("docker-compose is not installed")
    env = {**ENV, "POSTGRES_PASSWORD": "only-for-checks"}
    done = subprocess.run([*command, "config", "-q"], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    return [] if done.returncode == 0 else (done.stdout + done.stderr).splitlines()


def compose_command() -> list[str] | None:
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    if shutil.which("docker"):
        probe = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
        if probe.returncode == 0:
            return ["docker", "compose"]
    return None


def source_files() -> list[str]:
    """Files that are committed or about to be, by their path from the root."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted({name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()})


CHECKS: dict[str, Callable[[], Findings]] = {
    "style": style,
    "types": types,
    "directions": directions,
    "pure_rules": pure_rules,
    "system": system,
    "migrations": migrations,
    "translations": translations,
    "texts_collected": texts_collected,
    "vendored": vendored,
    "addresses": addresses,
    "sizes": sizes,
    "links": links,
    "compose": compose,
}


def main(names: list[str]) -> int:
    if unknown := set(names) - set(CHECKS):
        print(f"check: no check is called {', '.join(sorted(unknown))}; there are {', '.join(CHECKS)}")
        return 2
    failed = []
    for name in names or CHECKS:
        began = time.monotonic()
        try:
            findings = list(CHECKS[name]())
        except NotHere as reason:
            print(f"{name:16} left out: {reason}", flush=True)
            continue
        took = f"{time.monotonic() - began:.1f} s"
        print(f"{name:16} {'failed' if findings else 'ok':7}{took:>8}", flush=True)
        for finding in findings:
            print(f"    {finding}", flush=True)
        if findings:
            failed.append(name)
    print(f"check: {', '.join(failed)} failed." if failed else "check: all ok.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
