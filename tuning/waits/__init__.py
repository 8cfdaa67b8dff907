"""What threads of a program wait for in the kernel: which call, and which part of the kernel."""
