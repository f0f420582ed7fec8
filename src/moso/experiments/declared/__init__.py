"""The paper's figures and tables, and our own questions, as declarations."""
