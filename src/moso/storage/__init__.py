"""Files shared by several processes and machines: stores at addresses, and leases. Nothing here depends on runs."""
