"""`python -m highwater`: the same as the console command `highwater`."""

from highwater.cli import main

if __name__ == "__main__":
    main()
