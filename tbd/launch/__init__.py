"""How a run starts: files beside the package, the frameworks' environments, their MLflow projects, processes."""
