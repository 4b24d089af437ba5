// Browsers start no worker for a page that was opened from a folder, and the theme searches in one. On such a page a
// worker is a hidden frame: messages go in as events of its window, and what the program posts there comes out.
// The name of this file keeps the theme's plug-in "offline" from naming a public server for the same purpose.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      // Firefox loads an empty page into a new frame a moment later, unless something is written there before.
      inside.document.open();
      inside.document.write("<!doctype html><body></body>");
      inside.document.close();
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.loaded = new Promise((resolve, reject) => {
        const program = inside.document.createElement("script");
        program.addEventListener("load", resolve);
        program.addEventListener("error", () => reject(new Error(`${url} cannot be loaded`)));
        program.src = url;
        inside.document.body.append(program);
      });
    }

    async postMessage(data) {
      await this.loaded;
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data: structuredClone(data) }));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
