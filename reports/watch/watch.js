
// Asks for the picture once a second while the page is in sight, and goes to the report when the run has ended.
"use strict";
(() => {
  const everyMs = 1000;
  const slowMs = 5000;
  const place = document.getElementById("picture");
  const late = document.getElementById("late");
  const narrow = matchMedia("(max-width: 600px)");
  let answeredAt = new Date();
  let hasDied = false;
  const tell = (words) => {
    late.textContent = words;
    late.hidden = hasDied || !words;
  };
  const tellCut = (why) => tell(`No answer since ${answeredAt.toISOString().slice(11, 19)} UTC: ${why}, or the way to its host is cut.`);
  const look = async () => {
    if (document.hidden) return setTimeout(look, everyMs);
    const slow = setTimeout(() => tellCut("its host is busy"), slowMs);
    try {
      const answer = await fetch(narrow.matches ? "narrow" : "wide", { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.statusText);
      const seen = await answer.json();
      place.innerHTML = seen.html;
      document.title = seen.title;
      hasDied = seen.died;
      tell(seen.late);
      answeredAt = new Date();
      if (seen.report) return location.replace("report");
      if (seen.over) return undefined;
    } catch {
      tellCut("the command that serves this page has ended");
    } finally {
      clearTimeout(slow);
    }
    return setTimeout(look, everyMs);
  };
  look();
})();
