// The search finds pages that have all words of a query, or words that begin as they do. So words of a question that say
// nothing are left out, and endings; and where no page has all of the others, as few of them as possible, short ones first.
const EMPTY = new Set(
  ("a an and any are be been by can could did do does find for from get had has have how i if in instead into is it its many " +
    "me mean means much my need needs of on or our show so than that the their them there these they this those to use used " +
    "was we were what when where which who whose why will with would you your").split(" "),
);
const ENDING = /(?<=^\w{3,})(ings?|ed|e?s)$/i;
const MOST = 6; // words that are left out in turn
const QUERY = 2; // kinds of messages
const HITS = 3;

// All that is asked for a question, one after the other until there are hits.
const queries = (question) => {
  const words = question.split(/\s+/).filter((word) => word);
  const telling = words.filter((word) => !EMPTY.has(word.toLowerCase().replace(/\W+$/, "")));
  const kept = (telling.length ? telling : words).map((word) => word.replace(ENDING, ""));
  let all = [kept];
  for (const word of kept.slice(0, MOST)) all = all.concat(all.map((some) => some.filter((each) => each !== word)));
  return all
    .map((some) => some.join(" "))
    .filter((query, at) => query || at === 0)
    .sort((one, other) => other.split(" ").length - one.split(" ").length || other.length - one.length);
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
  set onmessage(handler) {
    super.onmessage = (event) => {
      const { type, data } = event.data;
      if (type === HITS) {
        this.asked -= 1;
        if (this.asked) return; // another question came since
        if (!data.items.length && this.left.length) {
          this.ask();
          return;
        }
      }
      handler?.(event);
    };
  }

  postMessage(message) {
    if (message.type !== QUERY) {
      super.postMessage(message);
      return;
    }
    this.message = message;
    this.left = queries(message.data.input);
    this.ask();
  }

  ask() {
    this.asked = (this.asked ?? 0) + 1;
    super.postMessage({ ...this.message, data: { ...this.message.data, input: this.left.shift() } });
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
