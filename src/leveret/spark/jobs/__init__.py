"""Ready pipelines: each file is one small PySpark job, started by ``leveret pipeline run`` or from Python."""
