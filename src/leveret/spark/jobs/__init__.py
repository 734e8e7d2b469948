"""The built-in pipelines: each module is a PySpark job, run by ``leveret pipeline run`` or from Python."""
