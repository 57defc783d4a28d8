// The website's search runs in a worker, which browsers do not allow for pages opened from disk. There, a hidden frame
// replaces it.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(address) {
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => this.deliver(this, data);
      const script = inside.document.createElement("script");
      this.ready = new Promise((resolve) => (script.onload = resolve));
      script.onerror = () => this.onerror?.(new Event("error"));
      script.src = new URL(address, location.href).href;
      inside.document.body.append(script);
    }

    postMessage(data) {
      this.ready.then(() => this.frame.isConnected && this.deliver(this.frame.contentWindow, data));
    }

    deliver(receiver, data) {
      const copy = structuredClone(data); // as between threads: changes on one side do not affect the other
      setTimeout(() => receiver.onmessage?.({ data: copy }));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
