// Message bodies as bytes, and bytes as JSON, text or hex.

/**
 * The body of a message of the API.
 * @param {{ payload: string, payload_encoding: string }} message
 */
export function bytesOf(message) {
  if (message.payload_encoding !== "base64") return new TextEncoder().encode(message.payload ?? "");
  return Uint8Array.from(atob(message.payload), (character) => character.charCodeAt(0));
}

/**
 * Whether the body is text: UTF-8 without control characters other than tabs and line ends.
 * @param {Uint8Array} body
 */
export function isReadable(body) {
  if (body.some((byte) => byte < 32 && byte !== 9 && byte !== 10 && byte !== 13)) return false;
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(body);
    return true;
  } catch {
    return false;
  }
}

/** @param {Uint8Array} body */
export function asText(body) {
  return new TextDecoder().decode(body);
}

/**
 * Indented JSON, or an error text. Numbers that JavaScript cannot represent are kept as written.
 * @param {Uint8Array} body
 */
export function asJson(body) {
  const text = asText(body);
  try {
    return JSON.stringify(JSON.parse(text, /** @type {(key: string, value: any) => any} */ (exact)), null, 2);
  } catch (problem) {
    return `Not valid JSON: ${problem.message}`;
  }
}

/**
 * A reviver, which new browsers call with the source text of each value.
 * @param {string} _key
 * @param {any} value
 * @param {{ source?: string }} [context]
 */
function exact(_key, value, context) {
  const { rawJSON } = /** @type {{ rawJSON?: (text: string) => unknown }} */ (/** @type {unknown} */ (JSON));
  const source = typeof value === "number" ? context?.source : undefined;
  return source && rawJSON && String(value) !== source ? rawJSON(source) : value;
}

/**
 * 00000000  48 65 6c 6c 6f …  |Hello|
 * @param {Uint8Array} body
 */
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

/** @param {Uint8Array} body */
export function isGzip(body) {
  return body[0] === 0x1f && body[1] === 0x8b && body[2] === 8;
}

/**
 * The decompressed body, up to `most` bytes; less if the body is truncated or damaged.
 * @param {Uint8Array} body
 */
export async function gunzipped(body, most = 4 << 20) {
  const stream = new Blob([/** @type {Uint8Array<ArrayBuffer>} */ (body)])
    .stream()
    .pipeThrough(new DecompressionStream("gzip"));
  const reader = stream.getReader();
  /** @type {Uint8Array[]} */
  const parts = [];
  let size = 0;
  try {
    while (size < most) {
      const { done, value } = await reader.read();
      if (done) break;
      parts.push(value);
      size += value.length;
    }
  } catch {
    // the rest cannot be decompressed
  }
  reader.cancel().catch(() => {}); // a small body can contain gigabytes
  return joined(parts, Math.min(size, most));
}

/**
 * @param {Uint8Array[]} parts
 * @param {number} size
 */
function joined(parts, size) {
  const all = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    const piece = part.subarray(0, size - at);
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}

/**
 * Whether the body is a JSON object or list.
 * @param {Uint8Array} body
 */
export function isJson(body) {
  if (!isReadable(body) || !/^\s*[{[]/.test(asText(body.slice(0, 64)))) return false;
  try {
    JSON.parse(asText(body));
    return true;
  } catch {
    return false;
  }
}
