"""What can become of a trial and a run: buckets, classes, codes and their sentences."""
