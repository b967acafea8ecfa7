// What a page gains when scripts run: copying, keys in a trajectory, ages that tick, a log that stays where it is read.
"use strict";

document.documentElement.classList.add("scripted");

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button.copy");
  if (!button) return;
  const code = button.closest(".digest, .copyable").querySelector("code, .fullhash");
  try {
    await navigator.clipboard.writeText(code.textContent.replace(/\s/g, ""));
  } catch {
    getSelection().selectAllChildren(code);
  }
  button.classList.add("done");
  setTimeout(() => button.classList.remove("done"), 1200);
});

// j and k move between the steps of a trajectory; typing in a field stays typing.
document.addEventListener("keydown", (event) => {
  if (!["j", "k"].includes(event.key) || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, select, textarea")) return;
  const steps = [...document.querySelectorAll(".step")];
  if (!steps.length) return;
  const here = steps.findIndex((step) => step === document.activeElement || step.matches(":target"));
  const focused = steps.indexOf(document.activeElement);
  const from = focused >= 0 ? focused : here;
  const to = Math.min(Math.max(from + (event.key === "j" ? 1 : -1), 0), steps.length - 1);
  steps[to].focus({ preventScroll: true });
  steps[to].scrollIntoView({ block: "start" });
  history.replaceState(null, "", `#${steps[to].id}`);
});

// A link to a step of another window: ask the site for the window that holds it.
const hash = /^#step-(\d+)$/.exec(location.hash);
if (hash && document.querySelector(".steps") && !document.getElementById(hash[0].slice(1))) {
  location.replace(`${location.pathname}?step=${hash[1]}`);
}

// "Updated 2 s ago": counted from the moment an answer arrived, also when it said that nothing changed.
let arrived = Date.now();
const spelled = (seconds) => {
  const parts = [[Math.floor(seconds / 3600), "h"], [Math.floor(seconds / 60) % 60, "min"], [seconds % 60, "s"]];
  return parts.filter(([n], index) => n || index === 2).map(([n, unit]) => `${n} ${unit}`).join(" ");
};
const tick = () => {
  const seconds = Math.round((Date.now() - arrived) / 1000);
  const words = seconds < 90 ? `${seconds} s ago` : `${Math.round(seconds / 60)} min ago`;
  document.querySelectorAll("[data-updated]").forEach((place) => { place.textContent = `Updated ${words}`; });
  document.querySelectorAll("[data-since]").forEach((place) => {
    place.textContent = spelled(Math.max(0, Math.round(Date.now() / 1000 - place.dataset.since)));
  });
  document.querySelectorAll("[data-unreachable]").forEach((place) => { place.hidden = seconds < 20; });
};
if (document.querySelector("[data-updated]")) {
  tick();
  setInterval(tick, 1000);
}

document.addEventListener("htmx:afterRequest", (event) => {
  const status = event.detail.xhr ? event.detail.xhr.status : 0;
  if ((status >= 200 && status < 300) || status === 304) arrived = Date.now();
  if (status === 403 || status === 404) location.reload();
});
document.addEventListener("htmx:beforeRequest", (event) => {
  if (document.hidden && event.detail.requestConfig.verb === "get") event.preventDefault();
});

// What an answer replaces is taken up where it was left: the place in a log or a wide table, what is unfolded, and
// what has the keyboard. A log follows its end while its end is being looked at, and holds still otherwise.
let left = null;
const parts = () => [...document.querySelectorAll("[data-panel]")];
const within = (part, selector) => [...part.querySelectorAll(selector)];
const follow = (box) => { box.scrollTop = box.scrollHeight; };
const called = (element) => `${element.localName} ${element.getAttribute("href") || element.textContent.trim()}`;
const asItIs = (part) => ({
  part,
  boxes: within(part, ".log, .scroll").map((box) => ({
    top: box.scrollTop, left: box.scrollLeft, end: box.scrollHeight - box.scrollTop - box.clientHeight < 24,
  })),
  open: within(part, "details").map((fold) => fold.open),
  focused: part.contains(document.activeElement) ? called(document.activeElement) : null,
});
const takeUp = (part, was) => {
  within(part, ".log, .scroll").forEach((box, index) => {
    const place = was.boxes[index];
    if (!place) return;
    if (box.matches(".log") && place.end) follow(box);
    else box.scrollTo({ top: place.top, left: place.left, behavior: "instant" });
  });
  within(part, "details").forEach((fold, index) => { fold.open = was.open[index] ?? fold.open; });
  if (was.focused === null) return;
  const same = within(part, "a, button, summary, [tabindex]").find((element) => called(element) === was.focused);
  (same || part.querySelector(".log"))?.focus({ preventScroll: true });
};
document.addEventListener("htmx:beforeSwap", (event) => {
  // Signed out meanwhile: the answer is the sign-in page, which belongs in the window and not in a part of this one.
  const asked = event.detail.pathInfo.requestPath.split("?")[0];
  if (event.detail.xhr.responseURL && new URL(event.detail.xhr.responseURL).pathname !== asked) {
    event.detail.shouldSwap = false;
    location.reload();
    return;
  }
  left = parts().map(asItIs);
});
document.addEventListener("htmx:afterSwap", () => {
  for (const was of left || []) {
    const part = document.getElementById(was.part.id);
    if (part && part !== was.part) takeUp(part, was);
  }
  left = null;
  tick();
});
addEventListener("load", () => { document.querySelectorAll(".log").forEach(follow); });
