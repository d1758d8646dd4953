/* SPDX-License-Identifier: Apache-2.0 */
/* How wide the columns of a table are, and how their names are cut to fit. */
const GridLayout = (() => {
  const CHARACTER = 7.6, PADDING = 22, NARROWEST = 64, WIDEST = 240, BOLD = 1.2;
  const PHONE = 700, ON_PHONE = 22, MOST_LINES = 2, FIRST = 44, OTHER = 26, SLACK = 6;

  const SENTENCE = /^[^/:=<>{}[\]|]*$/, WORDS = 4;

  const longest = (texts) => texts.reduce((most, text) => Math.max(most, text.length), 0);
  const pixels = (characters) => Math.max(NARROWEST, Math.ceil(characters * CHARACTER + PADDING));
  const characters = (width) => Math.floor((width - PADDING) / CHARACTER);
  const heading = (column) => Math.max(longest(column.label.split(" ")) * BOLD, column.label.length / 2 + 2);
  const wanted = (column) => Math.max(column.right ? longest(column.texts) : Math.min(longest(column.texts), WIDEST), heading(column));

  /* On a phone, long names of rows stand on two lines: cut to one, they would all read the same, and on more, few rows would be in sight. */
  function lines(column, room) {
    if (room >= PHONE || column.right) return 1;
    return Math.min(MOST_LINES, Math.ceil(longest(Units.elide(column.texts, ON_PHONE * MOST_LINES)) / ON_PHONE) || 1);
  }

  function least(column, at, room) {
    if (column.right) return wanted(column);
    return Math.min(wanted(column), Math.max(heading(column), room < PHONE ? ON_PHONE : at === 0 ? FIRST : OTHER));
  }

  /* What each gets of what is left: who asks for little gets it, the others have equal parts. */
  function shared(asked, left) {
    const given = asked.map(() => 0), order = asked.map((_, i) => i).filter((i) => asked[i] > 0).sort((a, b) => asked[a] - asked[b]);
    order.forEach((i, at) => {
      given[i] = Math.max(0, Math.min(asked[i], Math.floor(left / (order.length - at))));
      left -= given[i];
    });
    return given;
  }

  /* Whether a column holds sentences, which are broken into lines rather than cut: words alone, in a table that is drawn whole. */
  const isProse = (texts) => texts.every((text) => SENTENCE.test(text)) && texts.some((text) => text.split(" ").length > WORDS);

  /* Numbers have the room that they need; names share what is left, and are cut where they agree until they fit. */
  function fit(columns, room, rows) {
    const widths = columns.map((column, i) => pixels(least(column, i, room)));
    const gaps = columns.map((column, i) => Math.max(0, pixels(wanted(column)) - widths[i]));
    const more = shared(gaps, room - widths.reduce((a, b) => a + b, 0));
    return columns.map((column, i) => {
      const width = widths[i] + more[i];
      column.short = column.texts;
      if (column.right || column.prose) return width;
      const fits = i === 0 && rows > 1 ? characters(width) * rows - SLACK : characters(width); // room to break at a joint
      column.short = Units.elide(column.texts, fits);
      const wide = room < PHONE ? width : Math.max(width, Math.min(pixels(longest(column.short)), room / 2));
      const most = Math.max(fits, characters(wide), 3);
      if (most > fits) column.short = Units.elide(column.texts, most); // some differ more than others: these have room now
      column.short = column.short.map((text) => Units.shorten(text, most)); // there is no room for all that differs
      return wide;
    });
  }

  const JOINT = /[/:_.,(\- ]|[a-z0-9](?=[A-Z])/g;

  /* Where a name of two lines is best broken: behind its last joint that leaves no more than a line on either side, a scope's if there is one. */
  function joint(text, width) {
    const most = characters(width), ends = [...text.matchAll(JOINT)].map((found) => found.index + 1);
    const fitting = ends.filter((end) => end <= most && text.length - end <= most);
    return fitting.findLast((end) => "/: ".includes(text[end - 1])) ?? fitting.at(-1) ?? null;
  }

  return { fit, isProse, joint, lines, pixels, characters };
})();
