"""The pages of `moso reproduce`: tables and plots of experiments."""
