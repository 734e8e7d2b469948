"""Samples, totals and rates, and the families of Prometheus metrics."""
