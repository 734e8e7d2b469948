// Headers and arguments: tables of AMQP, typed as a JSON object.

/** The object that the text describes; nothing typed is an empty one. `what` begins the complaint: "Headers". */
export function objectOf(text, what) {
  if (!text.trim()) return {};
  let value = null;
  try {
    value = JSON.parse(text);
  } catch (problem) {
    throw { title: `Invalid ${what.toLowerCase()}`, reason: `${what} must be valid JSON: ${problem.message}` };
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw {
      title: `Invalid ${what.toLowerCase()}`,
      reason: `${what} must be a JSON object, such as {"colour": "red"}.`,
    };
  }
  return value;
}

/** A table in one line; nothing for an empty one. */
export function objectText(table) {
  return Object.keys(table ?? {}).length ? JSON.stringify(table) : "";
}
