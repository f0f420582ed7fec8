"""The paper's figures and tables as declarations, and the one engine that runs any of them."""
