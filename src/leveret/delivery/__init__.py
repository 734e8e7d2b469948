"""Consumers and their ring, unacknowledged deliveries, confirms, receipts, selectors."""
