// A page that is opened as a file may start no worker, and the search is one: its script then runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.waiting = []
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      this.frame.srcdoc = `<script src="${url}"></scr` + "ipt>"
      this.frame.onload = () => {
        this.inside = this.frame.contentWindow
        this.inside.postMessage = data => this.onmessage && this.onmessage({ data })
        this.waiting.splice(0).forEach(data => this.postMessage(data))
      }
      document.body.appendChild(this.frame)
    }

    postMessage(data) {
      if (this.inside) setTimeout(() => this.inside.onmessage({ data }))
      else this.waiting.push(data)
    }

    terminate() {
      this.frame.remove()
    }
  }
}
