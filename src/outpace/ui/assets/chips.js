/* SPDX-License-Identifier: Apache-2.0 */
/* Which part of the run is shown: host, device and steps. A choice is another address, so that it can be sent, and Back leads out of it. */
const Chips = (() => {
  const HIGH = 26, BELOW = 13, APART = 70; // pixels: of a column, of the numbers below, and between two of these
  const DIGIT = 6.5; // pixels
  const NARROWEST = 3, WIDEST = 9; // pixels of a column
  const TALL = 4; // times the median, at which columns end

  function go(form, first, last) {
    const query = new URLSearchParams();
    form.querySelectorAll("select").forEach((select) => { if (select.value) query.set(select.name, select.value); });
    const begin = String(first).trim(), end = String(last).trim();
    const [low, high] = begin && end && Number(begin) > Number(end) ? [end, begin] : [begin, end];
    if (low || high) query.set("steps", `${low}:${high}`);
    location.href = `${location.pathname}?${query.toString().replaceAll("%3A", ":").replaceAll("%2C", ",")}${location.hash}`;
  }

  /* All steps as columns, with some of their numbers below; what is not shown, or was left out, in grey. Where there are more steps than
     columns have room, a column is the longest of several. A drag chooses some, a click one column. */
  function strip(form, box) {
    const steps = JSON.parse(box.dataset.steps), lengths = steps.map(([, length]) => length).sort((a, b) => a - b);
    const most = Math.max(1, Math.min(lengths.at(-1), TALL * lengths[lengths.length >> 1]));
    const each = Math.ceil(steps.length / Math.max(1, Math.floor(box.clientWidth / NARROWEST)));
    const columns = [];
    for (let at = 0; at < steps.length; at += each) columns.push(steps.slice(at, at + each));
    const wide = Math.min(WIDEST, box.clientWidth / columns.length);
    const [low, high] = ends(form).map((field) => field.defaultValue);
    const shown = ([number, , aside]) => !aside && (low === "" || number >= Number(low)) && (high === "" || number <= Number(high));
    const picture = Dom.svg("svg", { width: wide * columns.length, height: HIGH + BELOW, "aria-hidden": "true" });
    const drag = Dom.svg("rect", { class: "drag", height: HIGH, width: 0 });
    const longest = (column) => Math.max(...column.map(([, length]) => length));
    columns.forEach((column, at) => {
      const tall = Math.max(1, Math.min(1, longest(column) / most) * HIGH);
      picture.append(Dom.svg("rect", { class: column.some(shown) ? "in" : "out", x: at * wide, y: HIGH - tall, width: Math.max(1, wide - 1), height: tall }));
    });
    picture.append(drag, ...numbers(columns, wide));
    box.append(picture);
    const place = (event) => Math.max(0, Math.min(columns.length - 1, Math.floor((event.clientX - picture.getBoundingClientRect().left) / wide)));
    const told = (begin, end) => {
      const [first, last] = [columns[begin][0][0], columns[end].at(-1)[0]], time = Units.humanize(longest(columns.slice(begin, end + 1).flat()), "ps");
      return first === last ? `Step ${first}: ${time}` : `Steps ${first} to ${last}: at most ${time} each`;
    };
    let begin = null;
    const chosen = (event) => [begin ?? place(event), place(event)].sort((a, b) => a - b);
    box.addEventListener("pointerdown", (event) => { begin = place(event); box.setPointerCapture(event.pointerId); });
    box.addEventListener("pointermove", (event) => {
      const [first, last] = chosen(event);
      box.dataset.tip = told(first, last);
      if (begin === null) return;
      drag.setAttribute("x", String(first * wide));
      drag.setAttribute("width", String((last - first + 1) * wide));
    });
    box.addEventListener("pointerup", (event) => {
      if (begin === null) return;
      const [first, last] = chosen(event);
      begin = null;
      go(form, columns[first][0][0], columns[last].at(-1)[0]);
    });
  }

  /* Round numbers of steps, below the columns that hold them. */
  function numbers(columns, wide) {
    const room = wide * columns.length, [first, last] = [columns[0][0][0], columns.at(-1).at(-1)[0]];
    let left = -Infinity; // where the last number ends
    return Axis.ticks(first, last, "", Math.max(2, Math.floor(room / APART))).flatMap(([number, text]) => {
      const at = columns.findIndex((column) => column.at(-1)[0] >= number), x = (at + 0.5) * wide, half = text.length * DIGIT / 2;
      if (at < 0 || !Number.isInteger(number) || columns[at][0][0] > number || x - half < left) return [];
      left = x + half + DIGIT;
      const anchor = x < 14 ? "start" : x > room - 14 ? "end" : "middle";
      return [Dom.svg("text", { class: "number", x: anchor === "middle" ? x : at * wide + (anchor === "end" ? wide : 0), y: HIGH + BELOW - 2, "text-anchor": anchor }, text)];
    });
  }

  const ends = (form) => ["first", "last"].map((name) => form.querySelector(`[name="${name}"]`));

  /* What is wrong with the steps that were written, as [field, sentence]; null for nothing. */
  function fault(form) {
    const [first, last] = ends(form), written = [first, last].map((field) => field.value.trim());
    const wrong = [first, last].find((field, i) => !/^-?\d*$/.test(written[i]));
    if (wrong) return [wrong, "The number of a step, or nothing."];
    const there = JSON.parse(form.querySelector(".strip").dataset.steps).map(([number]) => number);
    const [low, high] = [written[0] === "" ? -Infinity : Number(written[0]), written[1] === "" ? Infinity : Number(written[1])].sort((a, b) => a - b);
    return there.some((number) => number >= low && number <= high) ? null : [first, `There are the steps ${there[0]} to ${there.at(-1)}.`];
  }

  /* The steps take effect with Enter, or when neither of their fields has the focus any longer. */
  function fields(form, send) {
    const both = ends(form);
    for (const field of both) {
      field.addEventListener("input", () => field.setCustomValidity(""));
      field.addEventListener("keydown", (event) => {
        if (event.key !== "Enter") return;
        event.preventDefault();
        const [where, said] = fault(form) ?? [];
        if (!where) { send(); return; }
        where.setCustomValidity(said);
        where.reportValidity();
      });
      field.addEventListener("focusout", (event) => {
        const isLeft = document.activeElement !== event.target && form.isConnected; // else the window has lost the focus, or the form its page
        const changed = both.some(({ value, defaultValue }) => value.trim() !== defaultValue);
        if (isLeft && changed && !both.includes(event.relatedTarget) && !fault(form)) send();
      });
    }
  }

  /* The whole report may show another part than what was known first: then its choices take the place of these. */
  function renew(made) {
    const form = document.querySelector(".chips");
    if (!form || !made || form.dataset.part === made.getAttribute("data-part")) return;
    form.replaceWith(made);
    start();
  }

  /* The address of the whole run, in the view that is open. */
  function follow() {
    const whole = document.querySelector(".chips a");
    if (whole) whole.setAttribute("href", whole.dataset.query + location.hash);
  }

  function start() {
    const form = document.querySelector(".chips");
    if (!form) return;
    const send = () => go(form, ...ends(form).map((field) => field?.value ?? ""));
    form.addEventListener("submit", (event) => event.preventDefault());
    form.querySelectorAll("select").forEach((select) => select.addEventListener("change", send));
    follow();
    const box = form.querySelector(".strip");
    if (!box) return;
    strip(form, box);
    fields(form, send);
  }

  addEventListener("hashchange", follow);
  addEventListener("pageshow", (event) => { // Back shows the page's own part
    if (event.persisted) for (const form of document.forms) form.reset();
  });
  return { start, renew };
})();
Chips.start();
