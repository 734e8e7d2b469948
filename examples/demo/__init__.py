"""`make demo`: a shop's orders through a broker and Spark, for a minute."""
