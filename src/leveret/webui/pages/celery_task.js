// Messages of Celery, recognised by their headers: the name of the task is more telling than the body.

/**
 * The task in a message; null for other messages.
 * @returns {{ task: string, id: string, retries: number, eta: string | null, args: string, kwargs: string,
 *   headers: Record<string, any> } | null}
 */
export function celeryTask(message) {
  const headers = message.properties?.headers ?? {};
  if (typeof headers.task !== "string" || typeof headers.id !== "string") return null;
  return {
    task: headers.task,
    id: headers.id,
    retries: Number(headers.retries) || 0,
    eta: headers.eta ?? null,
    args: String(headers.argsrepr ?? ""),
    kwargs: String(headers.kwargsrepr ?? ""),
    headers,
  };
}

/** send_invoice(1, 'ann@example.org', copy=True) as one line: the task with its arguments. */
export function taskPreview({ args, kwargs }) {
  return [args, kwargs === "{}" ? "" : kwargs].filter(Boolean).join(" ");
}

/** Names and values for the details of a message. */
export function taskFacts({ task, id, retries, eta, args, kwargs, headers }) {
  return {
    task,
    "task ID": id,
    retries,
    ETA: eta ?? "none",
    args,
    kwargs,
    "expires at": headers.expires ?? undefined,
    "root task ID": headers.root_id === id ? undefined : headers.root_id,
    "parent task ID": headers.parent_id,
    group: headers.group,
    "published by": headers.origin,
  };
}
