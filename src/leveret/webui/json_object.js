// AMQP tables (headers, arguments) as JSON objects in text fields.

/**
 * Parses the text as a JSON object; empty text is an empty object. `what` names the field in errors: "Headers".
 * @param {string} text
 * @param {string} what
 * @returns {Record<string, any>}
 */
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

/**
 * The table on one line; an empty string for an empty table.
 * @param {object | null | undefined} table
 */
export function objectText(table) {
  return Object.keys(table ?? {}).length ? JSON.stringify(table) : "";
}
