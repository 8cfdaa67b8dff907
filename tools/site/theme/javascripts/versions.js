// The choice of versions in the header. The list of them is a script beside their folders, as a page that was opened as
// a file may fetch nothing.
(() => {
  const { base } = JSON.parse(document.getElementById("__config").textContent)
  const top = new URL(`${base}/../`, location.href)
  const here = new URL(`${base}/`, location.href).pathname.split("/").at(-2)
  const list = document.createElement("script")
  list.src = new URL("versions.js", top)
  list.onload = () => {
    const title = document.querySelector(".md-header__topic > .md-ellipsis")
    title.textContent = title.textContent.replace(here, "").trim()
    const choice = document.createElement("select")
    choice.className = "version"
    choice.setAttribute("aria-label", "Version of Highwater")
    for (const each of window.highwaterVersions) {
      choice.add(new Option(each.title, each.version, false, each.version === here))
    }
    choice.onchange = () => { location.href = new URL(`${choice.value}/index.html`, top) }
    title.after(choice)
  }
  document.head.append(list)
})()
