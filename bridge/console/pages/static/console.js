"use strict";

// Adds to pages that read without it: local times as titles, and news as it happens.

const QUIET_MS = 300; // changes that come together are shown together
const BETWEEN_MS = 2000; // a stream of changes is shown step by step
const AGAIN_MS = 3000; // until a stream that the server refused is tried again

function nameLocalTimes(root) {
  for (const time of root.querySelectorAll("time")) {
    time.title = new Date(time.dateTime).toLocaleString() + " local time";
  }
}

class News {
  constructor(after) {
    this.after = after;
    this.source = null;
    this.waiting = [];
    this.timer = null;
    this.shown = -BETWEEN_MS;
    this.state = document.getElementById("live-state");
    this.region = document.getElementById("live-news");
  }

  start() {
    // A hidden page gives its connection back: browsers have few for each server.
    document.addEventListener("visibilitychange", () => (document.hidden ? this.pause() : this.listen()));
    if (!document.hidden) this.listen();
  }

  pause() {
    if (this.source) this.source.close();
    this.source = null;
  }

  listen() {
    if (this.source) return;
    const source = new EventSource("/api/v1/stream?after=" + this.after);
    this.source = source;
    source.onopen = () => this.tell("Live", true);
    source.addEventListener("change", (message) => this.take(JSON.parse(message.data)));
    source.onerror = () => {
      this.tell("Not live; connecting again", false);
      if (source.readyState !== EventSource.CLOSED) return;
      this.pause();
      setTimeout(() => document.hidden || this.listen(), AGAIN_MS);
    };
  }

  tell(text, on) {
    this.state.hidden = false;
    this.state.textContent = text;
    this.state.classList.toggle("off", !on);
  }

  take(event) {
    this.after = event.seq;
    this.waiting.push(event);
    if (!this.timer) this.schedule();
  }

  schedule() {
    const wait = Math.max(QUIET_MS, this.shown + BETWEEN_MS - performance.now());
    this.timer = setTimeout(() => this.show(), wait);
  }

  async show() {
    const events = this.waiting;
    this.waiting = [];
    const last = events[events.length - 1];
    const more = events.length > 1 ? ` (and ${events.length - 1} more)` : "";
    this.region.textContent = `#${last.seq} ${last.action}: ${last.subject}, by ${last.actor}${more}`;
    try {
      await refresh();
    } catch {
      this.tell("Not live; connecting again", false);
    }
    this.shown = performance.now();
    this.timer = null;
    if (this.waiting.length) this.schedule();
  }
}

async function refresh() {
  const parts = [...document.querySelectorAll("[data-live]")];
  if (!parts.length) return;
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  if (answer.redirected || answer.status === 401) return location.reload();
  if (!answer.ok) throw new Error(answer.statusText);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of parts) {
    const fresh = page.getElementById(part.id);
    if (fresh && fresh.innerHTML !== part.dataset.shown) replace(part, fresh);
  }
}

function replace(part, fresh) {
  const focused = part.contains(document.activeElement) ? keyOf(document.activeElement) : null;
  const open = new Set([...part.querySelectorAll("li[id] > details[open]")].map((item) => item.parentElement.id));
  part.dataset.shown = fresh.innerHTML;
  part.replaceChildren(...document.adoptNode(fresh).childNodes);
  nameLocalTimes(part);
  for (const id of open) document.querySelector(`#${CSS.escape(id)} > details`)?.setAttribute("open", "");
  if (focused === null) return;
  const same = [...part.querySelectorAll("a, button, summary, input, [tabindex]")].find((one) => keyOf(one) === focused);
  same?.focus({ preventScroll: true });
}

function keyOf(element) {
  const item = element.closest("li[id]");
  return [item ? item.id : "", element.tagName, element.getAttribute("href"), element.getAttribute("aria-labelledby"), element.textContent].join("\n");
}

nameLocalTimes(document);
if (document.body.dataset.after !== undefined) new News(Number(document.body.dataset.after)).start();
