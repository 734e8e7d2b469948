// What the charts of the broker and of virtual hosts show, by label.

import { pointsOf } from "../chart.js";

export const RATES = {
  Publish: "publish",
  Confirm: "confirm",
  "Deliver (manual ack)": "deliver",
  "Deliver (auto ack)": "deliver_no_ack",
  Ack: "ack",
};
export const FURTHER_RATES = {
  Redelivered: "redeliver",
  "Get (manual ack)": "get",
  "Get (auto ack)": "get_no_ack",
  "Get (empty)": "get_empty",
  "Unroutable (returned)": "return_unroutable",
  "Unroutable (dropped)": "drop_unroutable",
};
export const TRAFFIC = { "From clients": "recv_oct", "To clients": "send_oct" };

/** The series of queue lengths. */
export function lengthSeries(totals) {
  return [
    { label: "Ready", points: pointsOf(totals.messages_ready_details), now: totals.messages_ready },
    { label: "Unacked", points: pointsOf(totals.messages_unacknowledged_details), now: totals.messages_unacknowledged },
    { label: "Total", points: pointsOf(totals.messages_details), now: totals.messages },
  ];
}
