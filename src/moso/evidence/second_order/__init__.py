"""Second derivatives of the loss at the end of training: curvature of the last layer, and what its inverse says."""
