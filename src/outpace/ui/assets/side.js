/* SPDX-License-Identifier: Apache-2.0 */
/* Two reports side by side: a view that is chosen in one is shown in the other. */
(() => {
  const frames = [...document.getElementsByTagName("iframe")];
  const view = (frame) => frame.contentWindow.location.hash.split("?")[0];

  function follow(frame, other) {
    const inner = frame.contentWindow;
    inner.addEventListener("hashchange", () => {
      const here = view(frame);
      if (here !== view(other) && other.contentDocument?.getElementById(here.slice(1).split("/")[0])) other.contentWindow.location.hash = here.split("/")[0];
    });
  }

  /* Light or dark as the reader chose, in one of the reports or before. */
  function theme() {
    const stored = () => { try { return localStorage.getItem("outpace-theme"); } catch { return null; } };
    const chosen = stored();
    if (chosen) for (const page of [document, ...frames.map((frame) => frame.contentDocument)]) if (page) {
      page.documentElement.dataset.theme = chosen;
      page.dispatchEvent(new CustomEvent("themed"));
    }
  }

  theme();
  addEventListener("storage", theme);
  frames.forEach((frame, i) => frame.addEventListener("load", () => follow(frame, frames[1 - i])));
})();
