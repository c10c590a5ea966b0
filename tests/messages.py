"""`make messages`: collects the texts of code and templates into locale/zh_Hans, for translating. Needs gettext."""

import shutil
import subprocess
import sys

from tests.check import ENV, ROOT


def main() -> int:
    if not shutil.which("xgettext"):
        print("messages: xgettext is missing: install gettext (on Debian: apt-get install gettext).", file=sys.stderr)
        return 2
    command = [sys.executable, "manage.py", "makemessages", "-l", "zh_Hans", "--no-wrap", "--add-location", "file"]
    for folder in (".venv", ".tools", "var", "tests", "docs", "node_modules"):
        command += ["-i", folder]
    return subprocess.run(command, cwd=ROOT, env=ENV, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
