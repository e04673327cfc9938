// The search finds pages that have all words of a query, or words that begin as they do: those of a question that say
// nothing are left out, and endings.
const EMPTY = new Set(
  ("a an and any are be been by can could did do does find for from get had has have how i if in instead into is it its many " +
    "me mean means much my need needs of on or our show so than that the their them there these they this those to use used " +
    "was we were what when where which who whose why will with would you your").split(" "),
);
const ENDING = /(?<=^\w{3,})(ings?|ed|e?s)$/i;
const SEARCH = 2; // the kind of message that has a query

const plain = (message) => {
  if (message.type !== SEARCH) return message;
  const words = message.data.input.split(/\s+/).filter((word) => word);
  const kept = words.filter((word) => !EMPTY.has(word.toLowerCase().replace(/\W+$/, "")));
  const input = (kept.length ? kept : words).map((word) => word.replace(ENDING, "")).join(" ");
  return { ...message, data: { ...message.data, input } };
};

// Browsers start no worker for a page that was opened as a file: the search then runs in a hidden frame.
class FrameWorker {
  constructor(address) {
    this.frame = document.createElement("iframe");
    this.frame.hidden = true;
    document.body.append(this.frame);
    const { contentWindow: inside, contentDocument: page } = this.frame;
    inside.postMessage = (data) => this.onmessage({ data });
    const script = page.createElement("script");
    script.src = address;
    this.ready = new Promise((loaded) => script.addEventListener("load", loaded));
    page.body.append(script);
  }

  postMessage(data) {
    this.ready.then(() => this.frame.contentWindow.onmessage({ data }));
  }

  terminate() {
    this.frame.remove();
  }
}

window.Worker = class extends (location.protocol === "file:" ? FrameWorker : window.Worker) {
  postMessage(message) {
    super.postMessage(plain(message));
  }
};

// Who has no pointer scrolls with keys what is wider than the page: it can have the focus.
const reachable = () => {
  for (const each of document.querySelectorAll("pre > code, .md-typeset__scrollwrap")) {
    if (each.scrollWidth > each.clientWidth) each.tabIndex = 0;
    else each.removeAttribute("tabindex");
  }
};

// No two landmarks of a page have the same name, and a button to copy is none.
const landmarks = () => {
  document.querySelector(".md-path")?.setAttribute("aria-label", "Path");
  for (const each of document.querySelectorAll(".md-code__nav")) each.setAttribute("role", "presentation");
};

document.addEventListener("DOMContentLoaded", () => {
  const complete = () => {
    reachable();
    landmarks();
  };
  complete();
  new MutationObserver(complete).observe(document.querySelector(".md-content"), { childList: true, subtree: true });
  addEventListener("load", reachable);
  addEventListener("resize", reachable);
});
