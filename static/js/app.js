/* What every page does: polls rest while nobody looks, failures are said, toasts can be put away. */
(() => {
  "use strict";
  const say = (text, kind) => {
    const toasts = document.getElementById("toasts");
    if (!toasts || [...toasts.querySelectorAll("p")].some((p) => p.textContent === text)) return;
    const toast = document.createElement("div");
    toast.className = "toast " + kind;
    toast.append(Object.assign(document.createElement("p"), { textContent: text }));
    toasts.append(toast);
    dress(toast);
  };
  const dress = (toast) => {
    if (toast.dataset.dressed) return;
    toast.dataset.dressed = "yes";
    const passing = toast.querySelector("[data-lasts-ms]");
    if (passing) setTimeout(() => passing.remove(), Number(passing.dataset.lastsMs));
    const close = Object.assign(document.createElement("button"), { type: "button", className: "small", textContent: document.body.dataset.close });
    close.addEventListener("click", () => toast.remove());
    toast.append(close);
    // What went wrong stays until it is put away; what went right has been read by then.
    if (!toast.matches(".error, .warning")) setTimeout(() => toast.remove(), 12000);
  };
  const dressAll = () => document.querySelectorAll("#toasts .toast").forEach(dress);

  document.addEventListener("DOMContentLoaded", dressAll);
  document.addEventListener("htmx:after:swap", () => {
    dressAll();
    // Once: the next poll must not take the reader away from what they are typing.
    const news = document.querySelector("[data-take-focus]");
    news?.focus();
    news?.removeAttribute("data-take-focus");
  });

  document.addEventListener("htmx:before:request", (event) => {
    if (document.hidden && event.detail.ctx.sourceElement.matches("[data-poll]")) event.preventDefault();
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) document.querySelectorAll("[data-poll]").forEach((one) => window.htmx?.trigger(one, "refresh"));
  });

  document.addEventListener("htmx:response:error", (event) => {
    const status = event.detail.ctx.response.status;
    if (status >= 500) say(document.body.dataset.failed, "error");
    else if (status === 403 || status === 404) say(document.body.dataset.gone, "error");
  });
  document.addEventListener("htmx:error", (event) => {
    if (event.detail.ctx) say(document.body.dataset.offline, "error");
  });
  document.addEventListener("htmx:after:request", () => {
    const lost = [...document.querySelectorAll("#toasts .toast")].find((one) => one.querySelector("p").textContent === document.body.dataset.offline);
    lost?.remove();
  });
})();
