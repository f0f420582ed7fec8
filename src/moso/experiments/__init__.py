"""The paper's figures and tables as declarations, and the engine that runs them."""
