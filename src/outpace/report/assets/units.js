"use strict";
/* Numbers as people read them: the same forms as `outpace.model.units.humanize`. */
const Units = (() => {
  const TIME = [[1e12, "s"], [1e9, "ms"], [1e6, "µs"], [1e3, "ns"], [1, "ps"]];
  const BYTES = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];
  const fixed = (value, digits) =>
    value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits, roundingMode: "halfEven" });

  function scaled(value, steps, zero) {
    if (value === 0) return "0 " + zero;
    let at = steps.findIndex(([f]) => Math.abs(value) >= f);
    if (at < 0) at = steps.length - 1;
    if (at > 0 && Number((Math.abs(value) / steps[at][0]).toFixed(0)) * steps[at][0] >= steps[at - 1][0]) at -= 1;
    const [factor, name] = steps[at];
    const size = Math.abs(value / factor);
    return fixed(value / factor, factor === 1 || Number(size.toFixed(1)) >= 100 ? 0 : Number(size.toFixed(2)) >= 10 ? 1 : 2) + " " + name;
  }

  function general(value) {
    if (value === 0) return "0";
    const shown = Number(value.toPrecision(3)), size = Math.abs(shown);
    return size >= 1e-4 && size < 1000 ? String(shown) : value.toExponential(2).replace(/\.?0+e/, "e").replace(/e([+-])(\d)$/, "e$10$2");
  }

  function humanize(value, unit) {
    if (value === null || value === undefined) return "–";
    if (unit === "bool") return value ? "yes" : "no";
    if (unit === "text" || unit === "" || typeof value !== "number") return String(value);
    if (unit === "ps") return scaled(value, TIME, "µs");
    if (unit === "bytes") return scaled(value, BYTES, "B");
    if (unit === "bytes_per_s") return scaled(value, BYTES, "B") + "/s";
    if (unit === "fraction") return fixed(value * 100, 1).replaceAll(",", "") + " %";
    if (unit === "count") return fixed(value, 0);
    if (unit === "cores") return fixed(value, 2).replaceAll(",", "") + " cores";
    return general(value);
  }

  /* Cut in the middle, like `outpace.model.text.shorten`: scope and op both stay readable. */
  function shorten(name, width) {
    if (name.length <= width) return name;
    const head = Math.floor((width - 1) / 2);
    return name.slice(0, head) + "…" + name.slice(name.length - (width - 1 - head));
  }

  return { humanize, shorten, isText: (unit) => unit === "text" || unit === "bool" };
})();
