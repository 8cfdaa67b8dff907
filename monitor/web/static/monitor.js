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
  // Zoom: a stretch that is dragged across a chart becomes the times of the address.
  let drag = null;
  const endDrag = () => {
    drag?.shade.remove();
    drag = null;
  };
  const place = (event, svg) => {
    const frame = svg.getBoundingClientRect();
    const [left, top, right, bottom] = svg.dataset.plot.split(" ").map(Number);
    const x = ((event.clientX - frame.left) / frame.width) * svg.viewBox.baseVal.width;
    return { x: Math.min(right, Math.max(left, x)), left, top, right, bottom };
  };
  document.addEventListener("pointerdown", (event) => {
    const svg = event.target.closest("[data-zoom] svg.chart[data-x]");
    if (!svg || event.button || event.pointerType === "touch" || event.target.closest("a")) return;
    event.preventDefault();
    const at = place(event, svg);
    const shade = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    shade.setAttribute("class", "dragged");
    shade.setAttribute("y", at.top);
    shade.setAttribute("height", at.bottom - at.top);
    svg.append(shade);
    drag = { svg, shade, from: at.x, to: at.x };
  });
  document.addEventListener("pointermove", (event) => {
    if (!drag) return;
    drag.to = place(event, drag.svg).x;
    drag.shade.setAttribute("x", Math.min(drag.from, drag.to));
    drag.shade.setAttribute("width", Math.abs(drag.to - drag.from));
  });
  document.addEventListener("pointerup", (event) => {
    if (!drag) return;
    const { left, right } = place(event, drag.svg);
    const [, low, high] = drag.svg.dataset.x.split(" ").map(Number);
    const times = [drag.from, drag.to].map((x) => Math.round(1000 * (low + ((x - left) / (right - left)) * (high - low)))).sort((a, b) => a - b);
    const isWide = Math.abs(drag.to - drag.from) > 6;
    endDrag();
    if (!isWide) return;
    const address = new URL(location.href);
    address.searchParams.delete("range");
    address.searchParams.set("from", times[0]);
    address.searchParams.set("to", Math.max(times[1], times[0] + 10000));
    address.hash = "";
    location.assign(address);
  });
  document.addEventListener("pointercancel", endDrag);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") endDrag();
    const search = document.getElementById("search");
    const isTyping = event.target.closest?.("input, select, textarea, [contenteditable]");
    if (event.key !== "/" || !search || isTyping || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    search.select();
  });
  const showScripted = () => document.querySelectorAll("[data-script]").forEach((each) => { each.hidden = false; });
  showScripted();
  if (!every || !status) return;
  let tag = "";
  const isBusy = () => {
    const main = document.getElementById("main");
    const selected = getSelection();
    if (drag) return true;
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
    showScripted();
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
    status.textContent = "";
  };
  setInterval(read, every);
})();
