// A list of the API that is filtered by more than a name. While it is short enough for one answer, all of it is looked
// through here; beyond that the broker filters, by name as it always does.

import { rowsSource } from "./table.js";

const FEW = 500; // the largest page

/** A source for a Table. `ask(question, signal)` asks the API, `text(row)` is what a filter looks at. */
export function fewRowsSource(ask, text, whenMany = () => {}) {
  let isFew = false; // not known yet
  const here = rowsSource(async (signal) => noted(await ask({ page: 1, page_size: FEW }, signal)).items, text);

  function noted(answer) {
    isFew = answer.total_count <= FEW;
    if (!isFew) whenMany();
    return answer;
  }

  return async (question, signal) => {
    if (question.name && isFew) return here(question, signal);
    const answer = noted(await ask(question, signal));
    return question.name && isFew ? here(question, signal) : answer; // the broker has looked at names only
  };
}
