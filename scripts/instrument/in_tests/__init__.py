"""What runs in the processes of the package's tests, while they are traced or tried with a fault."""

WAITS = 10  # times its processor time until a test that waits counts as hanging
