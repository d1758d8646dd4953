/* SPDX-License-Identifier: Apache-2.0 */
/* Tooltips, and the start of everything. */
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
    const pointed = (event) => {
      const target = event.target.closest ? event.target.closest("[data-tip]") : null;
      if (target) show(target.dataset.tip, event.clientX, event.clientY);
      else if (!event.target.closest?.(".plot")) hide();
    };
    document.addEventListener("mousemove", pointed);
    const beside = (target) => {
      const { left, bottom } = target.getBoundingClientRect();
      show(target.dataset.tip, left, bottom - 12);
    };
    document.addEventListener("focusin", (event) => {
      const target = event.target.closest("[data-tip]");
      if (target?.matches(":focus-visible")) beside(target);
    });
    document.addEventListener("focusout", (event) => { if (event.target.matches("dfn")) hide(); });
    document.addEventListener("click", (event) => { // a tap: there is no pointer to rest
      const word = event.target.closest("dfn[data-tip]");
      if (word) beside(word);
    });
    document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
    document.addEventListener("scroll", hide, { passive: true });
  }

  return { start, show, hide };
})();

const Page = (() => {
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
    Theme.start();
    keys();
    Tips.start();
    Views.enliven(document.querySelector("main"));
    Find.start();
    Routes.start();
  }

  return { start };
})();
Page.start();
