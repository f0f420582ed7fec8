"""Files that several processes and machines share: addresses, working copies, leases. Nobody here knows runs."""
