"""Evidence: its rows, what is wrong with them, and tables and pictures made of them. See python -m weft.report."""
