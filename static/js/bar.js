/* The quick bar: a chip may bring its length, a typed time chooses its chip, and keys reach it. What a choice would be is asked of the server. */
(() => {
  "use strict";
  const form = () => document.getElementById("quick");
  const pick = (name, value) => {
    const chip = form()?.querySelector(`input[name="${name}"][value="${value}"]`);
    if (chip) chip.checked = true;
  };
  const mend = (event) => {
    const field = event.target;
    if (!field.closest?.("#quick")) return;
    if (field.dataset.picks && field.value) pick(field.dataset.picks, "field");
    if (field.dataset.hours && field.checked) pick("hours", field.dataset.hours);
  };
  // In the capturing phase: what is asked of the server afterwards already holds what belongs together.
  document.addEventListener("input", mend, true);
  document.addEventListener("change", mend, true);

  /* Keys of one letter, which their dialog can switch off (they can get in the way of speech input). */
  const OFF = "labgpu-keys-off";
  const typing = (at) => at.closest?.("input:not([type=checkbox], [type=radio]), select, textarea, [contenteditable]");
  const keys = () => document.getElementById("keys");
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target) || document.querySelector("dialog[open]")) return;
    if (localStorage.getItem(OFF)) return;
    if (event.key === "/") document.getElementById("bar-say")?.focus();
    else if (event.key === "?") keys()?.showModal();
    else if (event.key === "c") document.querySelector(".calendar")?.focus();
    else return;
    event.preventDefault();
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest?.("[data-opens=keys]")) keys().showModal();
  });
  document.addEventListener("DOMContentLoaded", () => {
    // On a phone the schedule comes first; the bar opens at a press, or filled in.
    if (matchMedia("(max-width: 40rem)").matches) document.querySelector(".bar-fold")?.removeAttribute("open");
    const box = document.getElementById("keys-on");
    if (!box) return;
    box.checked = !localStorage.getItem(OFF);
    box.addEventListener("change", () => box.checked ? localStorage.removeItem(OFF) : localStorage.setItem(OFF, "yes"));
  });
})();
