"""The worker's side: everything that touches the engine, processes or a run's directory. Only workers import it."""
