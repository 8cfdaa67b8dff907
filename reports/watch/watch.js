
// Asks for the picture once a second while the page is in sight, and goes to the report when the run has ended.
"use strict";
(() => {
  const everyMs = 1000;
  const place = document.getElementById("picture");
  const cut = document.getElementById("cut");
  const narrow = matchMedia("(max-width: 600px)");
  let answeredAt = new Date();
  let hasDied = false;
  const look = async () => {
    if (document.hidden) return setTimeout(look, everyMs);
    try {
      const answer = await fetch(narrow.matches ? "narrow" : "wide", { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.statusText);
      const { html, title, died, over, report } = await answer.json();
      place.innerHTML = html;
      document.title = title;
      cut.hidden = true;
      answeredAt = new Date();
      if (report) return location.replace("report");
      if (over) return undefined;
      hasDied = died;
    } catch {
      const since = answeredAt.toISOString().slice(11, 19);
      cut.textContent = `No answer since ${since} UTC: the command that serves this page has ended, or the way to its host is cut.`;
      cut.hidden = hasDied;
    }
    return setTimeout(look, everyMs);
  };
  look();
})();
