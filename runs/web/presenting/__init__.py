"""What does a page say about the rows it shows? Finished values for templates, which decide nothing."""
