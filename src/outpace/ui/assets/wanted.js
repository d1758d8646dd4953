/* SPDX-License-Identifier: Apache-2.0 */
/* An address that was asked for before this browser had the token: it is opened as soon as the browser is let in. */
const Wanted = (() => {
  const KEY = "outpace-wanted", KEPT = 600000, EACH = 2000; // ms

  /* On the page that lets nobody in: this address is the one, and it is tried again, since the token may come by another tab. */
  function keep(asked) {
    const path = decodeURIComponent(location.pathname), below = path.endsWith(asked) ? path.slice(0, -asked.length) : "";
    document.getElementById("here").textContent = `${location.origin}${below}/?token=`; // as this browser reaches it, also through a proxy
    try {
      localStorage.setItem(KEY, JSON.stringify({ address: location.href, at: Date.now() }));
    } catch { /* no storage: this tab finds its way by itself, another one does not */ }
    setTimeout(() => location.reload(), EACH);
  }

  /* On the first page behind the token: on to what was asked for, once, if that is below it and not long ago. */
  function open() {
    try {
      const kept = JSON.parse(localStorage.getItem(KEY) || "{}"), own = new URL(".", location.href).href;
      localStorage.removeItem(KEY);
      if (Date.now() - kept.at < KEPT && kept.address !== own && kept.address.startsWith(own)) location.replace(kept.address);
    } catch { /* no storage: the page that was opened stays */ }
  }

  return { keep, open };
})();
