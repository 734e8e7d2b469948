// Bodies of messages as bytes, and bytes as JSON, text or hex.

/** The bytes of a message as the API tells it. */
export function bytesOf(message) {
  if (message.payload_encoding !== "base64") return new TextEncoder().encode(message.payload ?? "");
  return Uint8Array.from(atob(message.payload), (character) => character.charCodeAt(0));
}

/** Whether it is text that people wrote: UTF-8 without control characters other than tabs and ends of lines. */
export function isReadable(body) {
  if (body.some((byte) => byte < 32 && byte !== 9 && byte !== 10 && byte !== 13)) return false;
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(body);
    return true;
  } catch {
    return false;
  }
}

export function asText(body) {
  return new TextDecoder().decode(body);
}

/** Indented; what is no JSON is told so. Numbers too long for JavaScript are kept as written. */
export function asJson(body) {
  const text = asText(body);
  try {
    const value = JSON.parse(text, (key, member, context) =>
      typeof member === "number" && context?.source && String(member) !== context.source && JSON.rawJSON
        ? JSON.rawJSON(context.source)
        : member,
    );
    return JSON.stringify(value, null, 2);
  } catch (problem) {
    return `Not valid JSON: ${problem.message}`;
  }
}

/** 00000000  48 65 6c 6c 6f …  |Hello| */
export function asHex(body) {
  const lines = [];
  for (let start = 0; start < body.length; start += 16) {
    const part = [...body.slice(start, start + 16)];
    const hex = part.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const text = part.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${start.toString(16).padStart(8, "0")}  ${hex.padEnd(47)}  |${text}|`);
  }
  return lines.join("\n") || "(empty)";
}
