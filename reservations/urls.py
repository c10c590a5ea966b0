"""Addresses of the ledger's pages."""

from django.urls import URLPattern, path

from .views import (
    board,
    book,
    cases,
    health,
    hosts,
    join,
    language,
    links,
    members,
    mine,
    reservation,
    schedule,
    setup,
)

urlpatterns: list[URLPattern] = [
    # schedule, booking, one's own reservations, the board
    path("", schedule.schedule, name="schedule"),
    path("schedule/grid", schedule.grid, name="schedule-grid"),
    path("book", book.book, name="book"),
    path("reservations/<int:pk>/", reservation.reservation, name="reservation"),
    path("reservations/<int:pk>/release", reservation.release, name="release"),
    path("reservations/<int:pk>/undo-release", reservation.undo_release, name="undo-release"),
    path("reservations/<int:pk>/cancel", reservation.cancel, name="cancel"),
    path("reservations/<int:pk>/extend", reservation.extend, name="extend"),
    path("reservations/<int:pk>/move", reservation.move, name="move"),
    path("reservations/<int:pk>/again", reservation.again, name="again"),
    path("reservations/<int:pk>/instead", reservation.instead, name="instead"),
    path("reservations/<int:pk>/undo-booking", reservation.undo_booking, name="undo-booking"),
    path("mine", mine.mine, name="mine"),
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
    path("members/invites/<int:pk>/end", members.invite_revoke, name="invite-end"),
    path("members/<int:pk>/", members.member, name="member"),
    path("members/<int:pk>/approve", members.member_approve, name="member-approve"),
    path("members/<int:pk>/accounts", members.account_add, name="account-add"),
    path("members/<int:pk>/accounts/<int:account_pk>/remove", members.account_remove, name="account-remove"),
    path("hosts/", hosts.hosts, name="hosts"),
    path("hosts/add", hosts.host_add, name="host-add"),
    path("hosts/<int:pk>/reader", hosts.host_reader, name="host-reader"),
    path("hosts/<int:pk>/cards", hosts.card_add, name="card-add"),
    path("cards/<int:pk>/service", hosts.card_service, name="card-service"),
    # disputes and cases
    path("demerits/<int:pk>/dispute", cases.dispute, name="dispute"),
    path("cases/", cases.cases, name="cases"),
    path("cases/<int:pk>/", cases.case, name="case"),
    path("cases/<int:pk>/rule", cases.case_rule, name="case-rule"),
    # links in messages
    path("r/<str:token>", links.link, name="link"),
]
