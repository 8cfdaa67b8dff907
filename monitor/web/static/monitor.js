// Reads the page again when the monitor has a new snapshot, and replaces what has changed. Pages are complete without it.
"use strict";
(() => {
  const every = Number(document.body.dataset.tickS) * 1000;
  const status = document.getElementById("live");
  for (const button of document.querySelectorAll("[data-copy]")) button.hidden = false;
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "Copied";
  });
  if (!every || !status) return;
  let tag = "";
  const isBusy = () => {
    const main = document.getElementById("main");
    const selected = getSelection();
    const typing = document.activeElement?.matches("input, select, textarea");
    return typing || (!selected.isCollapsed && main.contains(selected.anchorNode));
  };
  const read = async () => {
    if (document.hidden || isBusy()) return;
    let answer;
    try {
      answer = await fetch(location.href, { headers: { "X-Live": "1", "If-None-Match": tag }, cache: "no-store" });
    } catch {
      status.textContent = "The monitor does not answer. This page is as it was.";
      return;
    }
    if (answer.status === 401) return location.reload();
    if (answer.status === 304) return;
    if (!answer.ok) {
      status.textContent = `The monitor answers ${answer.status}. This page is as it was.`;
      return;
    }
    tag = answer.headers.get("ETag") ?? "";
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (isBusy()) return;
    const focused = document.activeElement?.id;
    const scrolls = [...document.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
    const open = new Set([...document.querySelectorAll("details[id][open]")].map((each) => each.id));
    document.getElementById("main").replaceWith(fresh.getElementById("main"));
    document.querySelectorAll(".scroll").forEach((each, at) => { each.scrollLeft = scrolls[at] ?? 0; });
    for (const each of document.querySelectorAll("details[id]")) each.open = open.has(each.id);
    for (const button of document.querySelectorAll("[data-copy]")) button.hidden = false;
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
    status.textContent = "";
  };
  setInterval(read, every);
})();
