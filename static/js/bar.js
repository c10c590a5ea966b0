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
})();
