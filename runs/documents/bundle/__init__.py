"""Task bundles: the manifest, the task files, certification."""
