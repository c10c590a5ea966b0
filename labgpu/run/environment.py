"""Makes and keeps the virtual environment: `python3 labgpu/run/environment.py run|dev`.

Run by whatever Python the machine has, before anything is installed: standard library only, and plain enough for an old
Python to reach the sentence that says it is too old. uv comes from PyPI into `.tools`; everything else comes by
`requirements.lock`, where each file's hash is written down.
"""

import fcntl
import hashlib
import os
import subprocess
import sys

# mypy: allow-untyped-defs, allow-untyped-calls, allow-incomplete-defs
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOOLS = os.path.join(ROOT, ".tools")
VENV = os.path.join(ROOT, ".venv")
UV = os.path.join(TOOLS, "bin", "uv")
STAMP = os.path.join(VENV, ".labgpu-lock")
UV_VERSION = "0.13.9"
LOCKS = {"run": "requirements.lock", "dev": "requirements-dev.lock"}


def stop(sentence):
    sys.exit("labgpu: " + sentence)


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""


def write(stamp):
    with open(STAMP, "w", encoding="utf-8") as file:
        file.write(stamp + "\n")


def stamp_for(kind):
    with open(os.path.join(ROOT, LOCKS[kind]), "rb") as file:
        return kind + " " + hashlib.sha256(file.read()).hexdigest()


def call(command, what, env):
    done = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        sys.stderr.write(done.stdout.decode("utf-8", "replace"))
        stop(what)


def make_venv(path, env):
    """A fresh virtual environment of the Python that runs this file."""
    call(
        [sys.executable, "-m", "venv", "--clear", path],
        "this Python cannot make virtual environments: install its venv module (on Debian and Ubuntu: "
        "apt-get install python3-venv) and start again.",
        env,
    )


def ensure(kind):
    """`.venv` holds what the lock says. Where the tools of `dev` are installed they stay, whatever was asked for."""
    if read(STAMP).startswith("dev ") or kind == "dev":
        kind = "dev"
    wanted = stamp_for(kind)
    python = os.path.join(VENV, "bin", "python")
    if read(STAMP) == wanted and subprocess.call([python, "-c", ""], stderr=subprocess.DEVNULL) == 0:
        return
    print("labgpu: Setting up Python packages (once) …", flush=True)
    # UV_PYTHON would make uv act on that interpreter instead of .venv; a Python is never fetched.
    env = {name: value for name, value in os.environ.items() if name not in ("UV_PYTHON", "PYTHONPATH", "VIRTUAL_ENV")}
    env["UV_PYTHON_DOWNLOADS"] = "never"
    index = env.get("PIP_INDEX_URL")
    if index and not env.get("UV_DEFAULT_INDEX") and not env.get("UV_INDEX_URL"):
        env["UV_DEFAULT_INDEX"] = index  # a mirror chosen for pip serves uv as well
    if UV_VERSION not in read_version(env):
        make_venv(TOOLS, env)
        pip = [os.path.join(TOOLS, "bin", "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        call([*pip, "uv==" + UV_VERSION], "uv could not be installed: check the network, or PIP_INDEX_URL.", env)
    if not os.path.exists(python) or subprocess.call([python, "-c", ""], stderr=subprocess.DEVNULL):
        make_venv(VENV, env)
    write(kind + " unfinished")  # from here on the packages are neither the old lock's nor the new one's
    sync = [UV, "pip", "sync", "--quiet", "--python", python, "--require-hashes", "--compile-bytecode", LOCKS[kind]]
    call(sync, "the packages could not be installed: check the network, or UV_DEFAULT_INDEX.", env)
    write(wanted)


def read_version(env):
    try:
        return subprocess.check_output([UV, "--version"], env=env).decode()
    except (OSError, subprocess.CalledProcessError):
        return ""


def main():
    if sys.version_info < (3, 11):
        found = "{}.{}".format(*sys.version_info)
        stop("this is Python " + found + ", LabGPU needs 3.11 or newer: install it, or name it with PYTHON=python3.12.")
    if sys.version_info >= (3, 15):
        stop("this Python is newer than LabGPU knows: use 3.11 to 3.14, for example PYTHON=python3.13.")
    kind = sys.argv[1] if len(sys.argv) > 1 else "run"
    try:
        # Two commands started at once must not build the same environment at once.
        with open(os.path.join(ROOT, ".environment.lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            ensure(kind)
    except OSError as error:
        stop("the environment cannot be made in {} ({}): correct the folder's owner and rights.".format(ROOT, error.strerror))


if __name__ == "__main__":
    main()
