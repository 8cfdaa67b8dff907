// A page that was opened as a file may not start a worker from another file. It may from a text that it has.
if (location.protocol === "file:") {
  const text = document.currentScript.src.replace(/[^/]*$/, "search-worker.js")
  document.write(`<script src="${text}"><\/script>`)
  const TheirWorker = window.Worker
  window.Worker = class extends TheirWorker {
    constructor() {
      super(URL.createObjectURL(new Blob([window.searchWorker], { type: "text/javascript" })))
    }
  }
}
