/* SPDX-License-Identifier: Apache-2.0 */
/* Light or dark: as the address asks, else as the reader chose before, else as the system is set. */
const Theme = (() => {
  const KEY = "outpace-theme";

  function start() {
    const root = document.documentElement, button = document.getElementById("theme");
    const system = matchMedia("(prefers-color-scheme: dark)");
    const stored = () => { try { return localStorage.getItem(KEY); } catch { return null; } };
    const asked = new URLSearchParams(location.search).get("theme") || stored();
    if (asked === "dark" || asked === "light") root.dataset.theme = asked;
    const dark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
    const label = () => { button.textContent = dark() ? "Light" : "Dark"; };
    button.addEventListener("click", () => {
      root.dataset.theme = dark() ? "light" : "dark";
      try { localStorage.setItem(KEY, root.dataset.theme); } catch { /* a file opened from disk may have no storage */ }
      label();
    });
    system.addEventListener("change", label);
    label();
    button.hidden = false;
  }

  return { start };
})();
