"""Clients in a process of their own: `python -m tests.rig.client`, told what to do line by line by `runner.Crew`.

Each client is a thread with its own database connection, its own history file and a memory of what it was granted.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
import traceback
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import django

django.setup()

from django.db import connection  # noqa: E402

from reservations.models import Member, Reservation  # noqa: E402
from reservations.rules.refusal import Refused  # noqa: E402
from reservations.services import booking, changes, elastic, extension, locking, moving  # noqa: E402
from tests.rig.history import Writer  # noqa: E402
from tests.rig.sabotage import without  # noqa: E402


def _when(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _granted(row: Reservation) -> dict[str, Any]:
    return {
        "ok": True, "reservation": row.pk, "start": row.start.isoformat(), "end": row.end.isoformat(),
        "status": str(row.status), "version": row.version,
    }


class Client:
    """One person at work: acts through the services, as a view would."""

    def __init__(self, plan: dict[str, Any], folder: Path) -> None:
        self.member = Member.objects.get(pk=plan["member"])
        self.steps = plan["steps"]
        self.pen = Writer(folder, plan["name"])
        self.mine: dict[int, dict[str, Any]] = {}  # reservation → the last answer about it

    def step(self, number: int) -> None:
        if number < len(self.steps) and self.steps[number]:
            step = self.steps[number]
            for one in step if isinstance(step, list) else [step]:
                self.act(dict(one))

    def act(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Asks once (again while busy, if the step insists), and writes question and answer down."""
        asked = self._aim(asked)
        if not asked:
            return {}
        patience = 5 if asked.get("insist") else 1
        answer: dict[str, Any] = {}
        for _ in range(patience):
            number = self.pen.begin(asked)
            answer = self._answer(asked)
            self.pen.end(number, answer)
            if "busy" not in answer:
                break
        if answer.get("ok") and "reservation" in answer:
            self.mine[answer["reservation"]] = answer
        return answer

    def _aim(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Chooses one of the client's own reservations for a change. Without a fitting one, the step's `otherwise` if any."""
        if asked["op"] in {"create", "advance", "settle"} or "reservation" in asked:
            return asked
        now = asked["now"]
        fits = {
            "extend": lambda one: one["status"] in {"booked", "active"} and one["end"] > now,
            "cancel": lambda one: one["status"] == "booked" and one["start"] > now,
            "release": lambda one: one["status"] in {"booked", "active"} and one["start"] <= now < one["end"],
            "undo": lambda one: one["status"] == "released",
            "move": lambda one: one["status"] == "booked" and one["start"] > now,
            "again": lambda one: one["status"] in {"booked", "active"},
            "unbook": lambda one: one["status"] in {"booked", "active"},
        }[asked["op"]]
        chosen = [pk for pk, one in sorted(self.mine.items()) if fits(one)]
        return {**asked, "reservation": chosen[-1]} if chosen else asked.get("otherwise", {})

    def _answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._do(asked)
        except Refused as refusal:
            return {"refused": [str(code) for code in refusal.codes]}
        except locking.Busy as busy:
            cause = busy.__cause__.__cause__ if busy.__cause__ else None
            return {"busy": getattr(cause, "sqlstate", None) or "locked"}
        except Exception:
            return {"error": traceback.format_exc()}

    def _do(self, asked: dict[str, Any]) -> dict[str, Any]:
        now, op = _when(asked["now"]), asked["op"]
        assert now is not None
        member = Member.objects.get(pk=asked["member"]) if "member" in asked else self.member
        if op == "create":
            by_name = "count" not in asked
            request = booking.BookingRequest(
                tuple(asked["cards"]) if by_name else (), _when(asked["start"]), datetime.fromisoformat(asked["end"]),
                asked.get("tier", "regular"), key=asked.get("key", ""), count=asked.get("count", 0),
                may_move=asked.get("may_move"), project_id=asked.get("project"),
            )
            row = booking.reserve(member, request, now=now)
            return {**_granted(row), **({"cards": asked["cards"]} if by_name else {})}
        if op == "advance":
            for pk in [*booking.start_due(now), *booking.finish_due(now)]:
                booking.advance_one(pk, now=now)
            return {"ok": True}
        if op == "settle":
            for pk in elastic.due(now):
                elastic.settle(pk, now=now)
            return {"ok": True}
        pk = asked["reservation"]
        known = self.mine.get(pk, {})
        common: dict[str, Any] = {"by": member, "version": asked.get("version", known.get("version")), "now": now}
        if op == "extend":
            new_end = _when(asked.get("end")) or datetime.fromisoformat(known["end"]) + timedelta(minutes=asked["minutes"])
            done = extension.extend(pk, new_end, key=asked.get("key", ""), **common)
        elif op == "again":
            done = booking.again(pk, by=member, now=now, key=asked["key"])
        elif op == "move":
            later = timedelta(minutes=asked["minutes"])
            start, end = (datetime.fromisoformat(known[name]) + later for name in ("start", "end"))
            done = moving.move(pk, start=start, end=end, **common)
        else:
            done = {
                "cancel": changes.cancel, "release": changes.release, "undo": changes.undo_release, "unbook": moving.undo,
            }[op](pk, **common)
        return {**_granted(done), "ended": done.ended_at.isoformat() if done.ended_at else None}


def _run(plan: dict[str, Any], folder: Path, rounds: queue.Queue[Any], done: queue.Queue[str]) -> None:
    """A client's thread: waits for a round and its instant, takes its step, says so."""
    trouble = ""
    try:
        client = Client(plan, folder)
        done.put("")
        while (command := rounds.get()) is not None:
            number, at = command
            time.sleep(max(0.0, at - time.monotonic()))
            client.step(number)
            done.put("")
        client.pen.close()
    except Exception:
        trouble = traceback.format_exc()
    finally:
        connection.close()
        done.put(trouble)


def main() -> None:
    """Commands come as JSON lines; each is answered by one line. When the line is cut, the process goes."""
    threads: list[threading.Thread] = []
    inboxes: list[queue.Queue[Any]] = []
    done: queue.Queue[str] = queue.Queue()
    guards = ExitStack()
    for line in sys.stdin:
        command = json.loads(line)
        match command["do"]:
            case "load":
                connection.settings_dict["NAME"] = command["database"]
                guards.enter_context(without(*command["without"]))
                done = queue.Queue()
                inboxes = [queue.Queue() for _ in command["plans"]]
                threads = [
                    threading.Thread(target=_run, args=(plan, Path(command["folder"]), inbox, done), daemon=True)
                    for plan, inbox in zip(command["plans"], inboxes, strict=True)
                ]
                for thread in threads:
                    thread.start()
            case "round":
                for inbox in inboxes:
                    inbox.put((command["number"], command["at"]))
            case "end":
                for inbox in inboxes:
                    inbox.put(None)
        troubles = [trouble for trouble in [done.get() for _ in threads] if trouble]
        if command["do"] == "end":
            for thread in threads:
                thread.join()
            guards.close()
            guards = ExitStack()
        print(json.dumps({"troubles": troubles}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
