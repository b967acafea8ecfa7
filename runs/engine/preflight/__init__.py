"""What must hold on the worker before anything starts."""
