/* SPDX-License-Identifier: Apache-2.0 */
/* The dialog that captures running processes: what of each has come, a way to stop it, and the run when it is there. */
const Capture = (() => {
  const EACH = 500; // ms
  const KEY = "outpace-addresses";
  let dialog = null, running = false;

  const part = (selector) => dialog.querySelector(selector);

  async function ask(address, body) {
    const options = body === undefined ? {} : { method: "POST", headers: { "X-Outpace": "1" }, body, keepalive: true };
    const answer = await fetch(address, options);
    if (!answer.ok) throw new Error((await answer.text()).trim());
    return answer.json();
  }

  function show(state) {
    running = state.state === "running";
    part(".state").textContent = state.text || "";
    part(".begin").disabled = running;
    part(".stop").hidden = !running;
    const hosts = state.hosts || [], table = part("table");
    table.hidden = !hosts.length;
    table.querySelector("tbody").replaceChildren(...hosts.map((host) =>
      Dom.html("tr", { class: host.state }, Dom.html("td", {}, host.address), Dom.html("td", {}, host.state), Dom.html("td", {}, host.text || ""))));
    const open = part(".open");
    open.hidden = !state.run;
    if (state.run) open.setAttribute("href", `run/${state.run}/`);
  }

  /* Looks on until it is over. What was captured whole opens by itself; where a worker is missing, the table says so first. */
  async function follow() {
    for (;;) {
      const state = await ask("capture");
      show(state);
      if (state.state !== "running") {
        if (state.state === "done" && state.hosts.every((host) => host.state === "saved") && dialog.open) location.href = part(".open").getAttribute("href");
        return;
      }
      await new Promise((then) => { setTimeout(then, EACH); });
    }
  }

  const failed = (error) => { show({ state: "failed", text: error.message }); };

  /* The addresses of the last capture are those of the next one, most often. */
  function remember(addresses) {
    try { localStorage.setItem(KEY, addresses); } catch { /* a browser that keeps nothing */ }
  }

  function remembered() {
    try { return localStorage.getItem(KEY) ?? ""; } catch { return ""; }
  }

  async function begin(form) {
    remember(form.elements.addresses.value);
    try {
      show({ state: "running", text: "connecting" });
      show(await ask("capture", JSON.stringify(Object.fromEntries(new FormData(form)))));
      await follow();
    } catch (error) { failed(error); }
  }

  async function stop() {
    try { show(await ask("capture/stop", "")); } catch (error) { failed(error); }
  }

  function start() {
    dialog = document.getElementById("capture");
    if (!dialog) return;
    document.getElementById("ask-capture").addEventListener("click", () => {
      const field = part("[name=addresses]");
      if (!field.value) field.value = remembered();
      dialog.showModal();
    });
    part("form").addEventListener("submit", (event) => { event.preventDefault(); begin(event.target); });
    part(".stop").addEventListener("click", stop);
    part(".close").addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => { if (running) stop(); });
    addEventListener("pagehide", () => { if (running) stop(); });
  }

  return { start };
})();
