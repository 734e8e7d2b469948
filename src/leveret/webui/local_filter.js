// A table source that filters on more than the name. If the whole list fits into one page of the API, it is filtered
// here; otherwise the broker filters it by name.

import { rowsSource } from "./table.js";

const FEW = 500; // the API's largest page

/**
 * A source for a Table. `ask(question, signal)` calls the API; the filter searches `text(row)`.
 * @param {import("./table.js").Source} ask
 * @param {(row: any) => string} text
 * @returns {import("./table.js").Source}
 */
export function filteredSource(ask, text, whenMany = () => {}) {
  let isFew = false; // unknown before the first response
  const here = rowsSource(async (signal) => noted(await ask({ page: 1, page_size: FEW }, signal)).items, text);

  /** @param {import("./table.js").Page} answer */
  function noted(answer) {
    isFew = answer.total_count <= FEW;
    if (!isFew) whenMany();
    return answer;
  }

  return async (question, signal) => {
    if (question.name && isFew) return here(question, signal);
    const answer = noted(await ask(question, signal));
    return question.name && isFew ? here(question, signal) : answer; // the broker searched names only
  };
}
