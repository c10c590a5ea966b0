/* A link that was used leaves the address bar and the history: what stands there could be read over a shoulder or copied. */
(() => {
  "use strict";
  if (document.querySelector("[data-used]")) history.replaceState(null, "", "/");
})();
