/* Theme, tooltips and the place in the page. */
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
      Charts.redraw();
    });
    system.addEventListener("change", () => { label(); Charts.redraw(); });
    label();
    button.hidden = false;
  }

  function tips() {
    const tip = document.getElementById("tip");
    document.querySelectorAll("[data-tip] > title").forEach((title) => title.remove());
    const place = (event) => {
      const target = event.target.closest ? event.target.closest("[data-tip]") : null;
      tip.hidden = !target;
      if (!target) return;
      tip.textContent = target.dataset.tip;
      tip.style.left = Math.max(4, Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8)) + "px";
      tip.style.top = Math.max(4, event.clientY + 16 + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 10 : event.clientY + 16) + "px";
    };
    document.addEventListener("mousemove", place);
    document.addEventListener("click", place);
    document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
  }

  function navigation() {
    const links = new Map([...document.querySelectorAll("nav a")].map((a) => [a.hash.slice(1), a]));
    const seen = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        links.forEach((a) => a.classList.remove("on"));
        links.get(entry.target.id)?.classList.add("on");
      }
    }, { rootMargin: "-15% 0px -75% 0px" });
    document.querySelectorAll("main section").forEach((section) => seen.observe(section));
  }

  return { start: () => { theme(); tips(); navigation(); Charts.start(); if (window.Tabulator) Tables.start(); } };
})();
Page.start();
