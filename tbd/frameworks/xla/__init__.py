"""What the frameworks on XLA share: its profiler's records and its compiled programs. No framework is imported here."""
