/* SPDX-License-Identifier: Apache-2.0 */
/* Which part of the run is shown: host, device and steps. A choice is another address, so that it can be sent, and Back leads out of it. */
const Chips = (() => {
  const HIGH = 26, WIDEST = 9, TALL = 4; // times the median, at which columns end

  function go(form, first, last) {
    const query = new URLSearchParams();
    form.querySelectorAll("select").forEach((select) => { if (select.value) query.set(select.name, select.value); });
    const begin = String(first).trim(), end = String(last).trim();
    const [low, high] = begin && end && Number(begin) > Number(end) ? [end, begin] : [begin, end];
    if (low || high) query.set("steps", `${low}:${high}`);
    location.href = `${location.pathname}?${query.toString().replaceAll("%3A", ":").replaceAll("%2C", ",")}${location.hash}`;
  }

  /* All steps as columns; what is not shown, or was left out, in grey. A drag chooses some, a click one. */
  function strip(form, box) {
    const steps = JSON.parse(box.dataset.steps), lengths = steps.map(([, length]) => length).sort((a, b) => a - b);
    const most = Math.max(1, Math.min(lengths.at(-1), TALL * lengths[lengths.length >> 1]));
    const [first, last] = ["first", "last"].map((name) => form.querySelector(`[name="${name}"]`).value);
    const wide = Math.max(1, Math.min(WIDEST, Math.floor(box.clientWidth / steps.length)));
    const picture = Dom.svg("svg", { width: wide * steps.length, height: HIGH, "aria-hidden": "true" });
    const drag = Dom.svg("rect", { class: "drag", height: HIGH, width: 0 });
    steps.forEach(([number, length, aside], at) => {
      const high = Math.max(1, Math.min(1, length / most) * HIGH), inside = first === "" || (number >= Number(first) && number <= Number(last));
      picture.append(Dom.svg("rect", { class: inside && !aside ? "in" : "out", x: at * wide, y: HIGH - high, width: Math.max(1, wide - 1), height: high }));
    });
    picture.append(drag);
    box.append(picture);
    const place = (event) => Math.max(0, Math.min(steps.length - 1, Math.floor((event.clientX - picture.getBoundingClientRect().left) / wide)));
    let begin = null;
    const chosen = (event) => [begin, place(event)].sort((a, b) => a - b);
    box.addEventListener("pointerdown", (event) => { begin = place(event); box.setPointerCapture(event.pointerId); });
    box.addEventListener("pointermove", (event) => {
      if (begin === null) return;
      const [low, high] = chosen(event);
      drag.setAttribute("x", String(low * wide));
      drag.setAttribute("width", String((high - low + 1) * wide));
    });
    box.addEventListener("pointerup", (event) => {
      if (begin === null) return;
      const [low, high] = chosen(event);
      begin = null;
      go(form, steps[low][0], steps[high][0]);
    });
  }

  /* Whether there is a step between what was written; else the field says so. */
  function valid(form) {
    const [first, last] = ["first", "last"].map((name) => form.querySelector(`[name="${name}"]`)), box = form.querySelector(".strip");
    if (!box) return true;
    const numbers = JSON.parse(box.dataset.steps).map(([number]) => number), ends = [first, last].map((field) => field.value.trim());
    const [low, high] = [ends[0] === "" ? -Infinity : Number(ends[0]), ends[1] === "" ? Infinity : Number(ends[1])].sort((a, b) => a - b);
    const wrong = [first, last].find((field, i) => !/^-?\d*$/.test(ends[i]));
    const inside = numbers.some((number) => number >= low && number <= high);
    const fault = wrong ? "The number of a step, or nothing." : inside ? "" : `There are the steps ${numbers[0]} to ${numbers.at(-1)}.`;
    first.setCustomValidity("");
    last.setCustomValidity("");
    if (!fault) return true;
    (wrong || first).setCustomValidity(fault);
    (wrong || first).reportValidity();
    return false;
  }

  function start() {
    const form = document.querySelector(".chips");
    if (!form) return;
    const send = () => go(form, ...["first", "last"].map((name) => form.querySelector(`[name="${name}"]`)?.value ?? ""));
    form.addEventListener("submit", (event) => { event.preventDefault(); if (valid(form)) send(); });
    for (const name of ["first", "last"]) {
      const field = form.querySelector(`[name="${name}"]`);
      field?.addEventListener("input", () => field.setCustomValidity(""));
    }
    form.querySelectorAll("select").forEach((select) => select.addEventListener("change", send));
    const whole = form.querySelector("a"), box = form.querySelector(".strip");
    const follow = () => { if (whole) whole.setAttribute("href", "?" + location.hash); };
    addEventListener("hashchange", follow);
    follow();
    if (box) strip(form, box);
  }

  return { start };
})();
Chips.start();
