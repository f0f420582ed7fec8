"""Files that several processes and machines share: addresses and leases. Nobody here knows runs."""
