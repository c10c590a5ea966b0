"""Who may do what at which address (T11): the permission table, written by hand and checked cell by cell.

Columns are who asks. A *holder* is a column with an object of its `own`, a *stranger* the same with `other`; an arbiter
with its `own` case is a party to it; the bearer of a link is `anonymous` with a token that is good.

    anonymous    nobody signed in
    deactivated  was signed in when an admin took the sign-in away; the cookie is still sent
    unapproved   signed in, but waits for approval
    member       approved, no duties
    arbiter      approved, decides cases, is no admin
    admin        approved, administers, decides no cases
    superuser    approved, with the superuser's mark of an admin of old: it opens nothing
    before       nobody signed in, at an installation that is not set up yet

A line is `METHODS object CELL…`. GET stands for GET and HEAD, ANY for every method the row does not name. A method without
a line is 405 for everybody. A cell is the expected status; where the answer leads on, a letter instead:

    L  to sign-in          W  to the page of those who wait      C  to the welcome of an empty installation
    S  to the schedule     I  to the front page of the admin     A  to the admin's sign-in
    N  to the form of the next step (sign-in by code, a new password)
    -  there is no such object for that column

`+` says that rows change; without it not one may. Objects: `own`, `other` (somebody else's), `missing`; `there` where
nobody owns it; tokens by what is wrong with them.
"""

from __future__ import annotations

from dataclasses import dataclass

COLUMNS = ("anonymous", "deactivated", "unapproved", "member", "arbiter", "admin", "superuser", "before")
METHODS = ("GET", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE", "POST")  # POST last: it may sign out whoever asks
NO_OBJECT = ""


@dataclass(frozen=True)
class Row:
    """The expectations for one route, or for routes of one shape. `lines`: (method, object) → a cell per column."""

    routes: tuple[str, ...]
    group: str
    lines: dict[tuple[str, str], tuple[str, ...]]

    @property
    def objects(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(found for _, found in self.lines)) or (NO_OBJECT,)

    def cell(self, method: str, found: str, column: str) -> str:
        """What is expected; `-` where there is nothing to ask."""
        cells = self.lines.get((method, found)) or self.lines.get(("ANY", found))
        if cells:
            return cells[COLUMNS.index(column)]
        there = [line[COLUMNS.index(column)] for (_, named), line in self.lines.items() if named == found]
        return "-" if there and all(one == "-" for one in there) else "405"


TABLE: list[Row] = []
_group = ""


def group(name: str) -> None:
    global _group
    _group = name


def row(routes: str, text: str) -> None:
    """Adds a row for these routes (names, parted by spaces; a route without a name is given by its pattern)."""
    lines: dict[tuple[str, str], tuple[str, ...]] = {}
    for line in text.splitlines():
        words = line.split("#")[0].split()
        if not words:
            continue
        cells = tuple(words[-len(COLUMNS):])
        head = words[: -len(COLUMNS)]
        if len(head) not in (1, 2):
            raise ValueError(f"{routes}: not a line of the table: {line!r}")
        methods = ("GET", "HEAD") if head[0] == "GET" else (head[0],)
        for method in methods:
            key = (method, head[1] if len(head) == 2 else NO_OBJECT)
            if key in lines or method not in (*METHODS, "ANY"):
                raise ValueError(f"{routes}: {line!r}")
            lines[key] = cells
    TABLE.append(Row(tuple(routes.split()), _group, lines))


def each(pattern: str, models: str) -> str:
    """The routes of one shape of these models' pages in Django's admin."""
    return " ".join(pattern.format(model) for model in models.split())


# === schedule, reservations, the board ===============================================================================
group("reservations")
#                 anon deac unap memb arbi admi supe befo
row("schedule schedule-grid book-bar book-preview board board-table mine", """
    GET           L    L    W    200  200  200  200  C
""")
row("wall-time", """
    GET           L    L    W    200  200  200  200  C      # booked against used is for everybody (M1)
""")
row("book", """
    GET           L    L    W    200  200  200  200  C
    POST          L    L    W    303+ 303+ 303+ 303+ C
""")
row("find", """
    GET           L    L    W    200  200  200  200  C
""")
# Who holds what when is for every member to see; the note is not (T11 checks it in the page, `test_others_do_not_read`).
row("reservation", """
    GET own       -    L    W    200  200  200  200  -
    GET other     L    L    W    200  200  200  200  -
    GET missing   L    L    W    404  404  404  404  C
""")
# Holder and arbiters act (H8), admins do not for being admins. Another's looks as if it were not there.
row("release undo-release confirm wishes give-back undo-give-back cancel extend move undo-booking", """
    POST own      -    L    W    303+ 303+ 303+ 303+ -
    POST other    L    L    W    404  303+ 404  404  -
    POST missing  L    L    W    404  404  404  404  C
""")
# Cards were taken from it: equal ones are the holder's with one press (G5); another's looks as if it were not there.
row("take-equal", """
    POST own      -    L    W    303+ 303+ 303+ 303+ -
    POST other    L    L    W    404  303+ 404  404  -
    POST missing  L    L    W    404  404  404  404  C
""")
# What is offered is answered by whom it is offered to, and a wish is left by whose it is: arbiters have no say in it.
row("offer-take offer-pass waitlist-leave", """
    POST own      -    L    W    303+ 303+ 303+ 303+ -
    POST other    L    L    W    404  404  404  404  -
    POST missing  L    L    W    404  404  404  404  C
""")
row("waitlist", """
    GET           L    L    W    200  200  200  200  C
    POST          L    L    W    303+ 303+ 303+ 303+ C
""")
# Another's is booked again by nobody: it would be theirs (D8); nor is another time taken in its place (D5).
row("again instead", """
    POST own      -    L    W    303+ 303+ 303+ 303+ -
    POST other    L    L    W    404  404  404  404  -
    POST missing  L    L    W    404  404  404  404  C
""")
# The bearer acts as the member whom the token names, whoever is signed in (K4). What is wrong with a token is never told,
# save that it has expired. A link does the one thing it is for: `crossed` is a good token pressed for something else.
row("link", """
    GET release     200  200  200  200  200  200  200  -
    OPTIONS release 200  200  200  200  200  200  200  -
    POST release    200+ 200+ 200+ 200+ 200+ 200+ 200+ -
    GET extend      200  200  200  200  200  200  200  -
    OPTIONS extend  200  200  200  200  200  200  200  -
    POST extend     200+ 200+ 200+ 200+ 200+ 200+ 200+ -
    GET confirm     200  200  200  200  200  200  200  -
    OPTIONS confirm 200  200  200  200  200  200  200  -
    POST confirm    200+ 200+ 200+ 200+ 200+ 200+ 200+ -
    GET keep        200  200  200  200  200  200  200  -
    OPTIONS keep    200  200  200  200  200  200  200  -
    POST keep       200+ 200+ 200+ 200+ 200+ 200+ 200+ -
    GET take        200  200  200  200  200  200  200  -
    OPTIONS take    200  200  200  200  200  200  200  -
    POST take       200+ 200+ 200+ 200+ 200+ 200+ 200+ -
    GET pass        200  200  200  200  200  200  200  -
    OPTIONS pass    200  200  200  200  200  200  200  -
    POST pass       200+ 200+ 200+ 200+ 200+ 200+ 200+ -
    POST crossed    404  404  404  404  404  404  404  -
    GET crossed     200  200  200  200  200  200  200  -
    OPTIONS crossed 200  200  200  200  200  200  200  -
    GET forged      404  404  404  404  404  404  404  404
    OPTIONS forged  404  404  404  404  404  404  404  404
    POST forged     404  404  404  404  404  404  404  404
    GET lost        404  404  404  404  404  404  404  -    # its member may not act any more
    OPTIONS lost    404  404  404  404  404  404  404  -
    POST lost       404  404  404  404  404  404  404  -
    GET expired     410  410  410  410  410  410  410  -
    OPTIONS expired 410  410  410  410  410  410  410  -
    POST expired    410  410  410  410  410  410  410  -
""")

# === cases ===========================================================================================================
group("cases")
# A demerit is disputed by the one who bears it; arbiters read it in the case.
row("dispute", """
    GET own       -    L    W    200  200  200  200  -
    GET other     L    L    W    404  404  404  404  -
    GET missing   L    L    W    404  404  404  404  C
    POST own      -    L    W    303+ 303+ 303+ 303+ -
    POST other    L    L    W    404  404  404  404  -
    POST missing  L    L    W    404  404  404  404  C
""")
row("cases", """
    GET           L    L    W    404  200  404  404  C      # admins decide nothing for being admins (B3)
""")
row("case", """
    GET own       -    L    W    200  200  200  200  -
    GET other     L    L    W    404  200  404  404  -
    GET missing   L    L    W    404  404  404  404  C
""")
# A party decides nothing, an arbiter who is one neither (B3); they may see the case, so that they are told so: 403.
row("case-rule", """
    POST own      -    L    W    403  403  403  403  -
    POST other    L    L    W    404  303+ 404  404  -
    POST missing  L    L    W    404  404  404  404  C
""")

# Who a case of the clean-up is about states their side, and nobody for them (F3).
row("case-state", """
    POST own      -    L    W    303+ 303+ 303+ 303+ -
    POST other    L    L    W    404  404  404  404  -
    POST missing  L    L    W    404  404  404  404  C
""")

# === collaborators ===================================================================================================
group("collaborators")
# The holder alone asks and takes away; of an invitation only who is invited learns anything (B4).
row("collaborator-invite collaborator-remove", """
    POST own      -    L    W    303+ 303+ 303+ 303+ -
    POST other    L    L    W    404  404  404  404  -
    POST missing  L    L    W    404  404  404  404  C
""")
# `own`: a reservation to which this column is invited.
row("collaboration", """
    POST own      -    L    W    303+ 303+ 303+ 303+ -
    POST other    L    L    W    404  404  404  404  -
    POST missing  L    L    W    404  404  404  404  C
""")

# === projects, grants, house rules ====================================================================================
group("projects")
# Everybody sees projects and grants (C2). `own`: a project of which this column is a member.
row("projects", """
    GET           L    L    W    200  200  200  200  C
    POST          L    L    W    403  403  303+ 403  C
""")
row("project", """
    GET own       -    L    W    200  200  200  200  -
    GET other     L    L    W    200  200  200  200  -
    GET missing   L    L    W    404  404  404  404  C
""")
row("project-change project-hours", """
    POST own      -    L    W    403  403  303+ 403  -
    POST other    L    L    W    403  403  303+ 403  -
    POST missing  L    L    W    403  403  404  403  C
""")
# Its advisor and admins say who belongs: `led` is a project that this column leads.
row("project-member-add project-member-remove", """
    POST led      -    L    W    303+ 303+ 303+ 303+ -
    POST own      -    L    W    403  403  303+ 403  -
    POST other    L    L    W    403  403  303+ 403  -
    POST missing  L    L    W    404  404  404  404  C
""")
row("grant-request", """
    POST own      -    L    W    303+ 303+ 303+ 303+ -
    POST other    L    L    W    403  403  403  403  -
    POST missing  L    L    W    404  404  404  404  C
""")
# The project's advisor decides a first grant, not an arbiter nor an admin; nobody decides what they asked for (B3).
row("grant-decide", """
    POST led      -    L    W    303+ 303+ 303+ 303+ -
    POST own      -    L    W    403  403  403  403  -
    POST other    L    L    W    403  403  403  403  -
    POST missing  L    L    W    404  404  404  404  C
""")
row("grant-revoke", """
    POST led      -    L    W    303+ 303+ 303+ 303+ -
    POST own      -    L    W    303+ 303+ 303+ 303+ -      # asked for by themselves
    POST other    L    L    W    403  303+ 403  403  -
    POST missing  L    L    W    404  404  404  404  C
""")
row("house-rules", """
    GET           L    L    W    200  200  200  200  C
    POST          L    L    W    303  303  303  303  C      # this lab has none
""")
row("house-rules-text", """
    POST          L    L    W    403  403  303+ 403  C
""")

# === joining, set-up, language, health ===============================================================================
group("joining")
# Whoever is signed in has joined already: that page is the same for every token.
row("join", """
    GET open      200  200  200  200  200  200  200  -
    POST open     302+ 302+ 409  409  409  409  409  -
    GET over      410  410  200  200  200  200  200  -
    POST over     410  410  409  409  409  409  409  -
    GET missing   410  410  200  200  200  200  200  410
    POST missing  410  410  409  409  409  409  409  410
""")
row("waiting", """
    GET           L    L    200  S    S    S    S    L
""")
row("welcome", """
    GET           S    S    S    S    S    S    S    200
""")
# The link printed at the first start founds the lab, once. In a lab with an admin no token does.
row("setup", """
    GET good      -    -    -    -    -    -    -    200
    POST good     -    -    -    -    -    -    -    302+
    GET missing   404  404  404  404  404  404  404  404
    POST missing  404  404  404  404  404  404  404  404
""")
row("demo-load", """
    POST good     -    -    -    -    -    -    -    200+
    POST missing  404  404  404  404  404  404  404  404
""")
row("demo-wipe", """
    POST          L    L    W    403  403  409  403  C      # a real lab is never wiped
""")
row("set-language", """
    POST          303  303  303+ 303+ 303+ 303+ 303+ 303    # kept for the member, else only in the browser
""")
row("health", """
    GET           200  200  200  200  200  200  200  200
""")

# === members, hosts ==================================================================================================
group("members")
# The door stands before the look-up: to everybody but admins missing and there are the same 403.
row("members hosts", """
    GET           L    L    W    403  403  200  403  C
""")
row("member-invite", """
    POST          L    L    W    403  403  201+ 403  C
""")
row("host-add", """
    POST          L    L    W    403  403  303+ 403  C
""")
row("maintenance", """
    GET           L    L    W    403  403  200  403  C
    POST          L    L    W    403  403  303+ 403  C
""")
row("card-replace", """
    GET there     L    L    W    403  403  200  403  -
    GET missing   L    L    W    403  403  404  403  C
    POST there    L    L    W    403  403  303+ 403  -
    POST missing  L    L    W    403  403  404  403  C
""")
row("invite-end host-reader card-add card-service maintenance-end", """
    POST there    L    L    W    403  403  303+ 403  -
    POST missing  L    L    W    403  403  404  403  C
""")
row("member", """
    GET own       -    L    W    403  403  200  403  -
    GET other     L    L    W    403  403  200  403  -
    GET missing   L    L    W    403  403  404  403  C
    POST own      -    L    W    403  403  303+ 403  -
    POST other    L    L    W    403  403  303+ 403  -
    POST missing  L    L    W    403  403  404  403  C
""")
row("member-approve", """
    POST own      -    L    W    403  403  303  403  -      # nobody lets themselves in; an admin is in already
    POST other    L    L    W    403  403  303+ 403  -
    POST missing  L    L    W    403  403  404  403  C
""")
row("member-hours", """
    POST own      -    L    W    403  403  303+ 403  -
    POST other    L    L    W    403  403  303+ 403  -
    POST missing  L    L    W    403  403  404  403  C
""")
row("member-leave", """
    POST own      -    L    W    403  403  422  403  -      # the last admin stays
    POST other    L    L    W    403  403  303+ 403  -
    POST missing  L    L    W    403  403  404  403  C
""")
row("account-add", """
    POST own      -    L    W    403  403  303+ 403  -
    POST other    L    L    W    403  403  303+ 403  -
    POST missing  L    L    W    403  403  404  403  C
""")
# `crossed`: an account that is not this member's; removing what is not there changes nothing.
row("account-remove", """
    POST there    L    L    W    403  403  303+ 403  -
    POST crossed  L    L    W    403  403  303  403  -
    POST missing  L    L    W    403  403  404  403  C
""")

# === sign-in =========================================================================================================
group("sign-in")
# With the right password. Somebody deactivated is told so, and stays outside.
row("account_login", """
    GET           200  200  S    S    S    S    S    200
    OPTIONS       200  200  S    S    S    S    S    200
    POST          302+ 302  S    S    S    S    S    422
""")
# The same for every address, known or not.
row("account_request_login_code", """
    GET           200  200  S    S    S    S    S    200
    OPTIONS       200  200  S    S    S    S    S    200
    POST          N    N    S    S    S    S    S    N
""")
# Without a code asked for in this session there is nothing to confirm.
row("account_confirm_login_code", """
    GET           N    N    S    S    S    S    S    N
    OPTIONS       N    N    S    S    S    S    S    N
    POST          N    N    S    S    S    S    S    N
""")
row("account_logout", """
    GET           L    L    200  200  200  200  200  L
    OPTIONS       200  200  200  200  200  200  200  200
    POST          L    L    L    L    L    L    L    L
""")
row("account_inactive account_reset_password_done account_reset_password_from_key_done", """
    GET           200  200  200  200  200  200  200  200
    OPTIONS       200  200  200  200  200  200  200  200
""")
# Closed, and says so to whatever is sent: people join by an invite.
row("account_signup", """
    ANY           200  200  S    S    S    S    S    200
""")
row("account_change_password", """
    GET           L    L    200  200  200  200  200  L
    OPTIONS       L    L    200  200  200  200  200  L
    POST          L    L    302+ 302+ 302+ 302+ 302+ L
""")
# For accounts without a password; whoever has one is led to change it.
row("account_set_password", """
    GET           L    L    N    N    N    N    N    L
    OPTIONS       L    L    N    N    N    N    N    L
    POST          L    L    N    N    N    N    N    L
""")
row("account_reset_password", """
    GET           200  200  200  200  200  200  200  200
    OPTIONS       200  200  200  200  200  200  200  200
    POST          302  302  302  302  302  302  302  302    # the same for every address, known or not
""")
# `good`: the key of the mail; it is put away in the session and led to a form whose address has no key.
row("account_reset_password_from_key", """
    GET good      N    N    N    N    N    N    N    -
    OPTIONS good  N    N    N    N    N    N    N    -
    POST good     N    N    N    N    N    N    N    -
    GET missing   200  200  200  200  200  200  200  200    # says that the link is used or wrong
    OPTIONS missing 200 200 200 200  200  200  200  200
    POST missing  422  422  422  422  422  422  422  422
""")
row("usersessions_list", """
    GET           L    L    200  200  200  200  200  L
    POST          L    L    303+ 303+ 303+ 303+ 303+ L
""")

# === Django's admin ==================================================================================================
# For admins of the lab alone, for raw repair. Its sign-in is the site's own (AU-13). Nothing is added or deleted there.
REPAIRED = "member host gpu pool"
SHOWN = (
    "lab hostaccount invite cardstate reservation allocation ledgerentry demerit case ruling notification auditentry project "
    "projectmember deadlinegrant hourgrant collaborator waitlistentry"
)
ALL = f"{REPAIRED} {SHOWN}"

group("admin")
row("admin:index admin:app_list", """
    ANY           A    A    A    A    A    200  A    A
""")
row("admin:jsi18n admin:password_change_done", """
    GET           A    A    A    A    A    200  A    A
    OPTIONS       A    A    A    A    A    200  A    A
    ANY           A    A    A    A    A    405  A    A
""")
# Signs nobody in: it leads to the site's own form, and who is in stays who they are.
row("admin:login", """
    ANY           L    L    403  403  403  I    403  L
""")
row("admin:logout", """
    OPTIONS       I    I    I    I    I    200  I    I
    POST          I    I    I    I    I    L    I    I
    ANY           I    I    I    I    I    405  I    I
""")
row("admin:password_change", """
    ANY           A    A    A    A    A    N    A    A      # changed where everybody changes theirs
""")
row("admin:autocomplete", """
    GET           A    A    A    A    A    403  A    A      # no page of ours asks for it
    OPTIONS       A    A    A    A    A    200  A    A
    ANY           A    A    A    A    A    405  A    A
""")
row("admin:view_on_site", """
    ANY there     A    A    A    A    A    404  A    -      # no model has a page of its own here
    ANY missing   A    A    A    A    A    404  A    A
""")
row("admin/(?P<url>.*)$", """
    ANY           A    A    A    A    A    404  A    A      # whatever else is asked for
""")
group("admin-lists")
row(each("admin:reservations_{}_changelist", ALL), """
    ANY           A    A    A    A    A    200  A    A      # a ticked deletion is no action there: the list again
""")
row(each("admin:reservations_{}_add", ALL), """
    ANY           A    A    A    A    A    403  A    A
""")
row(each("admin/reservations/{}/<path:object_id>/", ALL), """
    ANY there     A    A    A    A    A    302  A    -      # the old address of the page
    ANY missing   A    A    A    A    A    302  A    A
""")
group("admin-pages")
row(each("admin:reservations_{}_delete", ALL), """
    ANY there     A    A    A    A    A    403  A    -
    ANY missing   A    A    A    A    A    403  A    A
""")
row(each("admin:reservations_{}_history", ALL), """
    ANY there     A    A    A    A    A    200  A    -
    ANY missing   A    A    A    A    A    I    A    A
""")
group("admin-forms")
row(each("admin:reservations_{}_change", REPAIRED), """
    POST there    A    A    A    A    A    302+ A    -
    ANY there     A    A    A    A    A    200  A    -
    ANY missing   A    A    A    A    A    I    A    A
""")
row(each("admin:reservations_{}_change", SHOWN), """
    POST there    A    A    A    A    A    403  A    -
    ANY there     A    A    A    A    A    200  A    -
    POST missing  A    A    A    A    A    403  A    A
    ANY missing   A    A    A    A    A    I    A    A
""")
GROUPS = tuple(dict.fromkeys(one.group for one in TABLE))
