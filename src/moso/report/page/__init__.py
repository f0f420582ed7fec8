"""The page of one run, as a file (`moso report`) or served (`moso explore`)."""
