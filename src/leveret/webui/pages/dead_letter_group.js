// The dead letters of one cause: browse, retry or delete all or selected messages.

import { path as at, get } from "../api.js";
import { fill, h, setText } from "../dom.js";
import { plural } from "../format.js";
import { begin, RunningJobs } from "../jobs.js";
import { nameLink, objectHead } from "../layout.js";
import { problemBox, undoable } from "../notices.js";
import { poll } from "../poll.js";
import { link } from "../router.js";
import { causeOf, errorOf, filterOf, groupOf, isSameGroup, REASONS, wayOf } from "./dead_letter_groups.js";
import { retryDialog } from "./dead_letter_retry.js";
import { traceLinks } from "./message_trace.js";
import { MessageBrowser } from "./queue_messages.js";

export const path = "/dead-letters/:group";
export const under = "Dead letters";
export const title = ({ group }) => {
  const named = groupOf(group);
  return named ? causeOf(named) : "Dead letters";
};

export function show(place, parameters, signal, user) {
  const group = groupOf(parameters.group);
  if (!group) {
    fill(
      place,
      problemBox({
        title: "Group not found",
        reason: "This link does not name a group of dead letters: choose one from the list.",
      }),
    );
    return;
  }
  const page = new Page(group, signal, traceLinks(user, group.vhost));
  fill(place, page.head, page.jobs.element, page.error, page.browser.element);
}

class Page {
  #group;
  #messages = 0;
  #chosen = [];

  constructor(group, signal, trace) {
    this.#group = group;
    this.count = h("span", {});
    this.retry = button("Retry all …", "strong", () => this.#retry(causeOf(group), filterOf(group), this.#messages));
    this.remove = button("Delete all", "danger", () => this.#delete(filterOf(group), this.#messages));
    this.retrySome = button("Retry selected …", "", () =>
      this.#retry("selected messages", { ids: this.#chosen }, this.#chosen.length),
    );
    this.removeSome = button("Delete selected", "danger", () =>
      this.#delete({ ids: this.#chosen }, this.#chosen.length),
    );
    this.head = this.#heading();
    this.error = h("p", { class: "card dead-error", hidden: true });
    this.jobs = new RunningJobs(
      signal,
      (row) => row.vhost === group.vhost && row.queue === group.queue,
      () => this.#changed(),
    );
    const options = {
      fixed: filterOf(group),
      onChoice: (ids) => this.#choose(ids),
      trace,
      nothing: "No messages with this cause are left.",
    };
    this.browser = new MessageBrowser(at`/api/queues/${group.vhost}/${group.queue}`, signal, options);
    this.refresh = poll(
      signal,
      (signal) => this.#load(signal),
      (problem) => fill(this.count, problem.reason),
    );
  }

  #heading() {
    const { reason, queue, vhost } = this.#group;
    const about = [
      REASONS[reason] && `${REASONS[reason]}. `,
      "Published to ",
      h("code", {}, wayOf(this.#group)),
      ", dead-letter queue ",
      nameLink(link`/queues/${vhost}/${queue}`, queue),
      ". ",
      this.count,
    ];
    return objectHead(causeOf(this.#group), about, this.retry, this.retrySome, this.removeSome, this.remove);
  }

  async #load(signal) {
    const { groups } = await get(at`/api/dead-letters/${this.#group.vhost}`, undefined, { signal });
    const found = groups.find((one) => isSameGroup(one, this.#group));
    this.#messages = found?.messages ?? 0;
    setText(this.count, plural(this.#messages, "message"));
    const error = errorOf(found ?? this.#group);
    this.error.hidden = !error;
    fill(this.error, h("strong", {}, "Error: "), h("code", {}, error));
    this.retry.disabled = this.remove.disabled = !this.#messages;
  }

  #choose(ids) {
    this.#chosen = ids;
    this.retrySome.disabled = this.removeSome.disabled = !ids.length;
    setText(this.retrySome, ids.length ? `Retry ${ids.length} selected …` : "Retry selected …");
    setText(this.removeSome, ids.length ? `Delete ${ids.length} selected` : "Delete selected");
  }

  #changed() {
    this.refresh();
    this.browser.refresh();
  }

  #retry(what, job, messages) {
    retryDialog(what, [{ vhost: this.#group.vhost, queue: this.#group.queue, job, messages }], this.jobs);
  }

  #delete(job, messages) {
    const { vhost, queue } = this.#group;
    undoable(`${plural(messages, "message")} in queue ${queue} will be deleted`, async () => {
      this.jobs.watch(await begin(vhost, queue, { kind: "delete", ...job }), messages);
    });
  }
}

function button(text, kind, act) {
  return h("button", { type: "button", class: kind, disabled: true, onclick: act }, text);
}
