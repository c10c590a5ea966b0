/* A press on a free place of a lane opens the booking form there; a block opens its reservation beside the schedule. */
(() => {
  "use strict";
  document.addEventListener("click", (event) => {
    const lane = event.target.closest?.(".lane[data-card]:not([data-closed])");
    // A press on a block is the block's. With the keyboard, and without this script, each card has its own link.
    if (!lane || event.target !== lane) return;
    const calendar = lane.closest(".calendar");
    const columns = getComputedStyle(lane).gridTemplateColumns.split(" ").length;
    const box = lane.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / box.width) * columns);
    const start = Number(calendar.dataset.start) + column * Number(calendar.dataset.step);
    const query = new URLSearchParams({ card: lane.dataset.card });
    // What has begun means from now on: the form says so by an empty start.
    if (start * 1000 > Date.now()) query.set("start", new Date(start * 1000).toISOString());
    location.assign(calendar.dataset.book + "?" + query);
  });

  const dialog = () => document.getElementById("panel-dialog");
  document.addEventListener("htmx:after:swap", (event) => {
    if (event.detail.ctx.target?.id !== "panel") return;
    const box = dialog();
    if (box && !box.open) box.showModal();
    box?.querySelector("h1, h2")?.focus();
  });
  // Outside the frame of the dialog is its backdrop: pressing there closes it.
  document.addEventListener("click", (event) => {
    if (event.target === dialog() && event.offsetX < 0) dialog().close();
  });
})();
