/* Theme and tooltips, and the start of everything. */
const Tips = (() => {
  const tip = document.getElementById("tip");

  function place(x, y) {
    tip.hidden = false;
    tip.style.left = Math.max(4, Math.min(x + 12, innerWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = Math.max(4, y + 16 + tip.offsetHeight > innerHeight ? y - tip.offsetHeight - 10 : y + 16) + "px";
  }

  function show(content, x, y) {
    tip.replaceChildren(content);
    place(x, y);
  }

  const hide = () => { tip.hidden = true; };

  function start() {
    document.querySelectorAll("[data-tip] > title").forEach((title) => title.remove());
    const pointed = (event) => {
      const target = event.target.closest ? event.target.closest("[data-tip]") : null;
      if (target) show(target.dataset.tip, event.clientX, event.clientY);
      else if (!event.target.closest?.(".plot")) hide();
    };
    document.addEventListener("mousemove", pointed);
    document.addEventListener("focusin", (event) => {
      const target = event.target.closest("[data-tip]");
      if (!target || !target.matches(":focus-visible")) return;
      const { left, bottom } = target.getBoundingClientRect();
      show(target.dataset.tip, left, bottom - 12);
    });
    document.addEventListener("scroll", hide, { passive: true });
  }

  return { start, show, hide };
})();

const Page = (() => {
  const KEY = "outpace-theme";

  function theme() {
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

  /* What scrolls must be reached without a mouse. */
  function areas() {
    document.querySelectorAll("main .scroll").forEach((area) => { area.tabIndex = 0; });
  }

  /* The list of keys, on a click or with the key that asks in other programs. */
  function keys() {
    const button = document.getElementById("ask"), list = document.getElementById("keys");
    button.addEventListener("click", () => list.showModal());
    document.addEventListener("keydown", (event) => {
      if (event.key !== "?" || list.open || event.target.matches("input, textarea, select")) return;
      event.preventDefault();
      list.showModal();
    });
    list.querySelector("button").addEventListener("click", () => list.close());
    button.hidden = false;
  }

  function start() {
    theme();
    keys();
    areas();
    Tips.start();
    Columns.start();
    if (typeof Pictures !== "undefined") Pictures.start(); // a report without them has none
    Grid.start();
    Find.start();
    Routes.start();
  }

  return { start };
})();
Page.start();
