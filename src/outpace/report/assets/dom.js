/* SPDX-License-Identifier: Apache-2.0 */
/* Small things that every part of the page needs. Texts go in as text, never as markup. */
const Dom = (() => {
  function fill(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) if (value !== undefined) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }
  const html = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
  const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

  function button(text, title, action) {
    const element = html("button", { type: "button", title: title || undefined }, text);
    element.addEventListener("click", action);
    return element;
  }

  /* One of few, side by side. `press` shows which is chosen, `chosen` hears of a click. */
  function tabs(label, texts, chosen) {
    const group = html("span", { class: "tabs", role: "group", "aria-label": label });
    const press = (at) => [...group.children].forEach((tab, i) => tab.setAttribute("aria-pressed", String(i === at)));
    group.append(...texts.map((text, i) => button(text, "", () => { press(i); chosen(i); })));
    press(0);
    return { group, press };
  }

  /* Calls `draw` when the box first has a width, and whenever its width changes: a hidden view has none. */
  function whenWide(box, draw) {
    let last = 0;
    new ResizeObserver(() => {
      const width = Math.round(box.clientWidth);
      if (width && width !== last) { last = width; draw(width); }
    }).observe(box);
  }

  /* A short message that goes away, and that screen readers speak. */
  let gone = 0;
  function say(text) {
    const said = document.getElementById("said");
    said.textContent = text;
    clearTimeout(gone);
    gone = setTimeout(() => { said.textContent = ""; }, 2600);
  }

  /* A file opened from disk may have no clipboard of its own: then the browser's old command copies a selected field. */
  async function copy(text, what) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const field = html("textarea", { class: "off-screen" });
      field.value = text;
      const focused = document.activeElement;
      document.body.append(field);
      field.select();
      document.execCommand("copy");
      field.remove();
      focused?.focus({ preventScroll: true });
    }
    say("Copied: " + what);
  }

  return { html, svg, button, tabs, whenWide, say, copy };
})();
