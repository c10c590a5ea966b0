"""Addresses of the ledger's pages."""

from django.urls import URLPattern, path, register_converter
from django.urls.converters import IntConverter

from .views import (
    board,
    book,
    cases,
    find,
    health,
    hosts,
    houserules,
    join,
    language,
    links,
    maintenance,
    members,
    mine,
    projects,
    quick,
    reservation,
    schedule,
    setup,
    shared,
    waitlist,
)


class IdConverter(IntConverter):
    """A row's number. What no database can hold is no row: the address does not exist, and no query is tried with it."""

    most = 2**63 - 1

    def to_python(self, value: str) -> int:
        # Python itself refuses to read numbers of thousands of digits, by the same ValueError.
        number = int(value)
        if number > self.most:
            raise ValueError
        return number


register_converter(IdConverter, "id")

urlpatterns: list[URLPattern] = [
    # schedule, booking, one's own reservations, the board
    path("", schedule.schedule, name="schedule"),
    path("schedule/grid", schedule.grid, name="schedule-grid"),
    path("book", book.book, name="book"),
    path("book/bar", quick.bar, name="book-bar"),
    path("book/preview", quick.preview, name="book-preview"),
    path("find", find.find, name="find"),
    path("reservations/<id:pk>/", reservation.reservation, name="reservation"),
    path("reservations/<id:pk>/release", reservation.release, name="release"),
    path("reservations/<id:pk>/undo-release", reservation.undo_release, name="undo-release"),
    path("reservations/<id:pk>/confirm", reservation.confirm, name="confirm"),
    path("reservations/<id:pk>/wishes", reservation.wishes, name="wishes"),
    path("reservations/<id:pk>/give-back", reservation.give_back, name="give-back"),
    path("reservations/<id:pk>/undo-give-back", reservation.undo_give_back, name="undo-give-back"),
    path("reservations/<id:pk>/cancel", reservation.cancel, name="cancel"),
    path("reservations/<id:pk>/extend", reservation.extend, name="extend"),
    path("reservations/<id:pk>/take", reservation.take, name="offer-take"),
    path("reservations/<id:pk>/pass", reservation.pass_on, name="offer-pass"),
    path("reservations/<id:pk>/move", reservation.move, name="move"),
    path("reservations/<id:pk>/again", reservation.again, name="again"),
    path("reservations/<id:pk>/instead", reservation.instead, name="instead"),
    path("reservations/<id:pk>/equal", reservation.take_equal, name="take-equal"),
    path("reservations/<id:pk>/undo-booking", reservation.undo_booking, name="undo-booking"),
    path("reservations/<id:pk>/collaborators", shared.invite, name="collaborator-invite"),
    path("reservations/<id:pk>/collaborators/<id:member_pk>/remove", shared.remove, name="collaborator-remove"),
    path("reservations/<id:pk>/collaboration", shared.answer, name="collaboration"),
    path("waitlist", waitlist.waitlist, name="waitlist"),
    path("waitlist/<id:pk>/leave", waitlist.leave, name="waitlist-leave"),
    path("mine", mine.mine, name="mine"),
    # projects, their deadline grants, one-off hours
    path("projects/", projects.projects, name="projects"),
    path("projects/<id:pk>/", projects.project, name="project"),
    path("projects/<id:pk>/change", projects.change, name="project-change"),
    path("projects/<id:pk>/members", projects.member_add, name="project-member-add"),
    path("projects/<id:pk>/members/<id:member_pk>/remove", projects.member_remove, name="project-member-remove"),
    path("projects/<id:pk>/hours", projects.hours, name="project-hours"),
    path("projects/<id:pk>/grants", projects.grant_request, name="grant-request"),
    path("grants/<id:pk>/decide", projects.grant_decide, name="grant-decide"),
    path("grants/<id:pk>/revoke", projects.grant_revoke, name="grant-revoke"),
    path("house-rules", houserules.house_rules, name="house-rules"),
    path("house-rules/text", houserules.house_rules_text, name="house-rules-text"),
    path("board", board.board, name="board"),
    path("board/table", board.table, name="board-table"),
    # joining, set-up, language, health
    path("join/<str:token>", join.join, name="join"),
    path("waiting", join.waiting, name="waiting"),
    path("welcome", setup.welcome, name="welcome"),
    path("setup/<str:token>", setup.setup, name="setup"),
    path("demo/load", setup.demo_load, name="demo-load"),
    path("demo/wipe", setup.demo_wipe, name="demo-wipe"),
    path("language", language.set_language, name="set-language"),
    path("health", health.health, name="health"),
    # members and hosts, for admins
    path("members/", members.members, name="members"),
    path("members/invites", members.invite, name="member-invite"),
    path("members/invites/<id:pk>/end", members.invite_revoke, name="invite-end"),
    path("members/<id:pk>/", members.member, name="member"),
    path("members/<id:pk>/approve", members.member_approve, name="member-approve"),
    path("members/<id:pk>/hours", members.member_hours, name="member-hours"),
    path("members/<id:pk>/leave", members.member_leave, name="member-leave"),
    path("members/<id:pk>/accounts", members.account_add, name="account-add"),
    path("members/<id:pk>/accounts/<id:account_pk>/remove", members.account_remove, name="account-remove"),
    path("hosts/", hosts.hosts, name="hosts"),
    path("hosts/add", hosts.host_add, name="host-add"),
    path("hosts/<id:pk>/reader", hosts.host_reader, name="host-reader"),
    path("hosts/<id:pk>/cards", hosts.card_add, name="card-add"),
    path("cards/<id:pk>/replace", hosts.card_replace, name="card-replace"),
    path("maintenance/", maintenance.maintenance, name="maintenance"),
    path("maintenance/<id:pk>/end", maintenance.maintenance_end, name="maintenance-end"),
    path("cards/<id:pk>/service", hosts.card_service, name="card-service"),
    # disputes and cases
    path("demerits/<id:pk>/dispute", cases.dispute, name="dispute"),
    path("cases/", cases.cases, name="cases"),
    path("cases/<id:pk>/", cases.case, name="case"),
    path("cases/<id:pk>/statement", cases.case_state, name="case-state"),
    path("cases/<id:pk>/rule", cases.case_rule, name="case-rule"),
    # links in messages
    path("r/<str:token>", links.link, name="link"),
]
