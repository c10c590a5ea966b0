/* The calendar: free time is chosen by drag, by two clicks, by a long press or by keys, and goes to the bar above; the reader's own
   blocks are moved and resized by their panel's own forms. Nothing is decided here: what a choice would be, the server says. */
(() => {
  "use strict";
  const HOLD_MS = 350, EDGE_PX = 8, SLACK_PX = 5;
  const calendar = () => document.querySelector(".calendar");
  const lanes = () => [...document.querySelectorAll(".calendar .lane[data-card]")];
  const open = (lane) => lane && !("closed" in lane.dataset);
  let chosen = null; // {lane, to, start, end}: the first and last lane's cards, and columns, the end excluded
  let drag = null;
  let cursor = null; // {card, column}

  const columns = () => Number(calendar().dataset.columns);
  const columnAt = (lane, x) => {
    const box = lane.getBoundingClientRect();
    return Math.min(Math.max(Math.floor(((x - box.left) / box.width) * columns()), 0), columns() - 1);
  };
  const instant = (column) => new Date((Number(calendar().dataset.start) + column * Number(calendar().dataset.step)) * 1000);
  const words = (date) =>
    new Intl.DateTimeFormat(document.documentElement.lang, { weekday: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone: calendar().dataset.zone }).format(date);
  const between = (a, b) => {
    const all = lanes(), from = all.findIndex((one) => one.dataset.card === a), to = all.findIndex((one) => one.dataset.card === b);
    return all.slice(Math.min(from, to), Math.max(from, to) + 1).filter(open);
  };
  const place = (item) => {
    const style = getComputedStyle(item);
    return [Number(style.gridColumnStart) - 1, Number(style.gridColumnEnd) - 1];
  };
  const isTaken = (lane, start, end, but) =>
    [...lane.querySelectorAll(":scope > .slot, :scope > .part")].some((item) => {
      if (item.querySelector(".ended") || item.matches(".ended") || (but && item.querySelector(`[id^="b${but}-"]`))) return false;
      const [from, to] = place(item);
      return from < end && to > start;
    });

  const clearGhosts = () => document.querySelectorAll(".ghost").forEach((one) => one.remove());
  const ghost = (lane, start, end, text, but) => {
    const item = document.createElement("li");
    item.className = `ghost s${start} e${end}` + (isTaken(lane, start, end, but) ? " taken" : "");
    item.setAttribute("aria-hidden", "true");
    item.textContent = text;
    lane.append(item);
  };
  const draw = () => {
    clearGhosts();
    if (!chosen || !calendar()) return;
    const picked = between(chosen.lane, chosen.to);
    const text = `${picked.length} × ${words(instant(chosen.start))} – ${words(instant(chosen.end))}`;
    picked.forEach((lane, place) => ghost(lane, chosen.start, chosen.end, place ? "" : text));
  };

  const toBar = (withEnd) => {
    const query = new URLSearchParams(), form = document.getElementById("quick");
    for (const lane of between(chosen.lane, chosen.to)) query.append("card", lane.dataset.card);
    // What has begun means from now on.
    if (instant(chosen.start) <= new Date()) query.set("when", "now");
    else query.set("start", instant(chosen.start).toISOString());
    if (withEnd) query.set("end", instant(chosen.end).toISOString());
    for (const name of ["tier", "purpose", "project"]) {
      const value = form ? new FormData(form).get(name) : null;
      if (value !== null) query.set(name, value);
    }
    window.htmx.ajax("GET", calendar().dataset.bar + "?" + query, { target: "#bar", swap: "outerHTML" });
  };

  /* --- choosing free time with a pointer --- */
  const begin = (event, lane) => {
    drag = { kind: "choose", lane, column: columnAt(lane, event.clientX), x: event.clientX, y: event.clientY, moved: false };
  };
  const reach = (event) => {
    const lane = document.elementsFromPoint(event.clientX, event.clientY).map((one) => one.closest?.(".lane[data-card]")).find(open) ?? drag.lane;
    return [lane, columnAt(lane, event.clientX)];
  };
  const choose = (event) => {
    const [lane, column] = reach(event);
    chosen = { lane: drag.lane.dataset.card, to: lane.dataset.card, start: Math.min(drag.column, column), end: Math.max(drag.column, column) + 1 };
    draw();
  };
  // A first click says from when, for the usual length; a second one, further on, until when.
  const click = () => {
    const card = drag.lane.dataset.card, column = drag.column;
    const before = chosen;
    if (before?.byClick && column > before.start && open(drag.lane)) {
      chosen = { lane: before.lane, to: card, start: before.start, end: column + 1 };
      draw();
      toBar(true);
      return;
    }
    chosen = { lane: card, to: card, start: column, end: column + 1, byClick: true };
    draw();
    toBar(false);
  };

  /* --- moving and resizing one's own --- */
  const grip = (event, block) => {
    const [kind, from, to] = block.dataset.own.split(" ");
    const box = block.getBoundingClientRect(), edge = Math.min(EDGE_PX, box.width / 4);
    const side = event.clientX > box.right - edge ? "end" : event.clientX < box.left + edge ? "start" : "whole";
    if (kind === "active" && side !== "end") return;
    const lane = block.closest(".lane");
    drag = { kind: "own", side, block, lane, from: Number(from), to: Number(to), x: event.clientX, y: event.clientY, column: columnAt(lane, event.clientX), moved: false, active: kind === "active" };
  };
  const shifted = (event) => {
    const [lane, column] = drag.side === "whole" ? reach(event) : [drag.lane, columnAt(drag.lane, event.clientX)];
    const by = (column - drag.column) * Number(calendar().dataset.step), step = Number(calendar().dataset.step);
    const start = drag.side === "end" ? drag.from : drag.from + by, end = drag.side === "start" ? drag.to : drag.to + by;
    return { lane, start: Math.min(start, end - step), end: Math.max(end, start + step) };
  };
  const follow = (event) => {
    const to = shifted(event), zero = Number(calendar().dataset.start), step = Number(calendar().dataset.step);
    const start = Math.max(Math.floor((to.start - zero) / step), 0), end = Math.min(Math.ceil((to.end - zero) / step), columns());
    clearGhosts();
    const number = drag.block.id.slice(1).split("-")[0];
    if (end > start) ghost(to.lane, start, end, `${words(new Date(to.start * 1000))} – ${words(new Date(to.end * 1000))}`, number);
  };
  const exactly = (form, name, seconds) => {
    const field = form.elements.namedItem(name);
    field.type = "hidden"; // an exact instant, which a field for local times cannot hold
    field.value = new Date(seconds * 1000).toISOString();
  };
  const carryOut = async (event) => {
    const done = drag, to = shifted(event), block = done.block;
    const card = block.id.split("-")[1];
    quietly = true;
    await window.htmx.ajax("GET", block.getAttribute("hx-get"), { target: "#panel", swap: "innerHTML" });
    const form = document.querySelector(done.active ? "#panel form[data-extends]" : "#panel form[data-moves]");
    if (!form) { // it has changed meanwhile: the panel says how it stands
      quietly = false;
      dialog().showModal();
      return;
    }
    if (done.active) exactly(form, "until", to.end);
    else {
      exactly(form, "start", to.start);
      exactly(form, "end", to.end);
      // Which cards it has besides is the server's to know: they need not all be shown here.
      if (to.lane !== done.lane)
        for (const [name, value] of [["from_card", card], ["to_card", to.lane.dataset.card]])
          form.append(Object.assign(document.createElement("input"), { type: "hidden", name, value }));
    }
    form.requestSubmit(form.querySelector("[data-typed]"));
  };

  document.addEventListener("pointerdown", (event) => {
    if (event.button || !event.target.closest) return;
    const lane = event.target.closest(".lane[data-card]"), block = event.target.closest(".block[data-own]");
    if (block && event.pointerType !== "touch") grip(event, block);
    else if (open(lane) && (event.target === lane || event.target.closest(".ghost, .cursor"))) {
      if (event.pointerType !== "touch") begin(event, lane);
      else {
        const { clientX, clientY } = event;
        const timer = setTimeout(() => { drag.held = true; chosen = null; choose({ clientX, clientY }); }, HOLD_MS);
        begin(event, lane);
        drag.touch = timer;
      }
    }
  });
  document.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const far = Math.hypot(event.clientX - drag.x, event.clientY - drag.y) > SLACK_PX;
    if (drag.touch && !drag.held) {
      if (far) { clearTimeout(drag.touch); drag = null; } // it scrolls
      return;
    }
    drag.moved ||= far;
    if (!drag.moved) return;
    document.body.classList.add("dragging");
    if (drag.kind === "choose") choose(event);
    else follow(event);
  });
  document.addEventListener("touchmove", (event) => { if (drag?.held) event.preventDefault(); }, { passive: false });
  document.addEventListener("pointerup", (event) => {
    document.body.classList.remove("dragging");
    if (!drag) return;
    clearTimeout(drag.touch);
    if (drag.kind === "choose") {
      if (drag.moved || drag.held) { choose(event); toBar(true); }
      else click();
    } else if (drag.moved) {
      swallow = true; // the click that ends the drag must not open the panel
      setTimeout(() => { swallow = false; }, 50);
      clearGhosts();
      carryOut(event);
    }
    drag = null;
  });
  document.addEventListener("pointercancel", () => { clearTimeout(drag?.touch); drag = null; });
  let swallow = false;
  document.addEventListener("click", (event) => {
    if (!swallow) { quietly = false; return; }
    event.preventDefault();
    event.stopImmediatePropagation();
  }, true);

  /* --- keys: one Tab stop, arrows inside --- */
  const oneStop = () => {
    document.querySelectorAll(".calendar .cal-body a, .calendar .cal-body button").forEach((one) => { one.tabIndex = -1; });
  };
  const stand = () => {
    document.querySelector(".cursor")?.closest("li").remove();
    const lane = lanes().find((one) => one.dataset.card === cursor.card);
    if (!lane) return;
    const item = [...lane.children].find((one) => !one.matches(".ghost, .part") && place(one)[0] <= cursor.column && place(one)[1] > cursor.column);
    const there = item?.querySelector("button, a");
    if (there) return void there.focus();
    const holder = document.createElement("li"), button = document.createElement("button");
    holder.className = `cursor-place s${cursor.column} e${cursor.column + 1}`;
    button.type = "button";
    button.className = "cursor";
    button.tabIndex = -1;
    button.setAttribute("aria-label", [lane.dataset.name, words(instant(cursor.column)), item ? item.textContent : calendar().dataset.free].join(", "));
    holder.append(button);
    lane.append(holder);
    button.focus();
    button.scrollIntoView({ block: "nearest", inline: "nearest" });
  };
  const step = (event) => {
    const all = lanes().filter(open), day = Math.round(86400 / Number(calendar().dataset.step));
    const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], PageUp: [0, -day], PageDown: [0, day], Home: [0, -columns()], End: [0, columns()] };
    const by = moves[event.key];
    if (!by || !all.length) return false;
    if (!cursor) {
      const now = Math.floor((Date.now() / 1000 - Number(calendar().dataset.start)) / Number(calendar().dataset.step));
      cursor = { card: all[0].dataset.card, column: now >= 0 && now < columns() ? now : 0 };
    } else {
      const before = { ...cursor }, at = Math.max(all.findIndex((one) => one.dataset.card === cursor.card), 0);
      cursor.card = all[Math.min(Math.max(at + by[0], 0), all.length - 1)].dataset.card;
      // Over a block an arrow goes to its other side.
      const on = document.activeElement.closest?.(".calendar li");
      const [from, to] = on && !event.shiftKey ? place(on) : [cursor.column, cursor.column + 1];
      const column = by[1] === 1 ? to : by[1] === -1 ? from - 1 : cursor.column + by[1];
      cursor.column = Math.min(Math.max(column, 0), columns() - 1);
      if (event.shiftKey) {
        if (!chosen || chosen.byClick) chosen = { lane: before.card, to: before.card, start: before.column, end: before.column + 1, from: before.column };
        const anchor = chosen.from ?? chosen.start;
        chosen = { ...chosen, to: cursor.card, start: Math.min(anchor, cursor.column), end: Math.max(anchor, cursor.column) + 1, from: anchor };
        draw();
      } else if (chosen) { chosen = null; clearGhosts(); }
    }
    stand();
    return true;
  };
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { chosen = null; drag = null; clearGhosts(); }
    const inside = event.target.closest?.(".calendar");
    if (inside && !event.ctrlKey && !event.metaKey && !event.altKey) {
      if (step(event)) return event.preventDefault();
      if (event.key === "Enter" && (event.target.matches(".cursor") || (chosen && !event.target.matches(".book-link")))) {
        event.preventDefault();
        if (!chosen) { chosen = { lane: cursor.card, to: cursor.card, start: cursor.column, end: cursor.column + 1, byClick: true }; draw(); toBar(false); }
        else toBar(true);
      }
      return;
    }
  });

  /* --- the panel beside the schedule, and what a swap takes away --- */
  const dialog = () => document.getElementById("panel-dialog");
  let quietly = false; // a drag carries its form out without the panel, unless it is refused
  document.addEventListener("htmx:after:swap", (event) => {
    if (calendar()) { oneStop(); draw(); }
    const box = dialog();
    if (!box || box.open) return;
    const refused = box.querySelector("[role=alert]");
    if (quietly ? !refused : event.detail.ctx.target?.id !== "panel") return;
    quietly = false;
    box.showModal();
    (refused ?? box.querySelector("h1, h2"))?.focus();
  });
  // Outside the frame of the dialog is its backdrop: pressing there closes it.
  document.addEventListener("click", (event) => {
    if (event.target === dialog() && event.offsetX < 0) dialog().close();
  });
  document.addEventListener("DOMContentLoaded", () => {
    oneStop();
    document.querySelector(".block.new")?.scrollIntoView({ block: "center", inline: "nearest" }); // what was just booked is seen
  });
})();
