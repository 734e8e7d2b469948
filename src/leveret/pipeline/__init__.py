"""The broker's side of Spark: sources as Arrow, leases, stages and commits, over HTTP."""
