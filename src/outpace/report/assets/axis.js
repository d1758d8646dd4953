/* SPDX-License-Identifier: Apache-2.0 */
/* Where an axis has its marks: at round numbers of one unit, so that they read as one scale. */
const Axis = (() => {
  const SCALES = {
    ps: [[1e12, "s"], [1e9, "ms"], [1e6, "µs"], [1e3, "ns"], [1, "ps"]],
    bytes: [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]],
    fraction: [[0.01, "%"]],
  };

  /* About `count` marks from `low` to `high` as [value, text]; the text has the digits that tell neighbours apart. */
  function ticks(low, high, unit, count) {
    if (!(high > low)) return [];
    const size = Math.max(Math.abs(low), Math.abs(high)), scales = SCALES[unit] || [[1, ""]];
    const [factor, name] = scales.find(([f]) => size >= f) || scales[scales.length - 1];
    const rough = (high - low) / factor / count, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((m) => m * power >= rough * 0.75);
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    const marks = [];
    for (let i = Math.ceil(low / factor / step - 1e-9); i * step * factor <= high * (1 + 1e-12); i++) {
      const text = (i * step || 0).toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
      marks.push([i * step * factor || 0, name ? text + " " + name : text]);
    }
    return marks;
  }

  return { ticks };
})();
