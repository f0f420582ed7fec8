"""What a network does with its parameters while samples pass: calls, whose rows they have, folded batch-norms."""
