/* SPDX-License-Identifier: Apache-2.0 */
/* Light or dark: as the address asks, else as the reader chose before, else as the system is set. */
const Theme = (() => {
  const KEY = "outpace-theme", root = document.documentElement, system = matchMedia("(prefers-color-scheme: dark)");

  const isDark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";

  function start() {
    const button = document.getElementById("theme");
    const stored = () => { try { return localStorage.getItem(KEY); } catch { return null; } };
    const asked = new URLSearchParams(location.search).get("theme") || stored();
    if (asked === "dark" || asked === "light") root.dataset.theme = asked;
    const label = () => {
      button.textContent = isDark() ? "Light" : "Dark";
      document.dispatchEvent(new CustomEvent("themed"));
    };
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      try { localStorage.setItem(KEY, root.dataset.theme); } catch { /* a file opened from disk may have no storage */ }
      label();
    });
    system.addEventListener("change", label);
    label();
    button.hidden = false;
  }

  return { start, isDark };
})();
